"""Tests that every run leaves out because others prove the same promise sooner; `./dev test --long` has them.

By file and function: the parameter that every run keeps, or an empty text if it keeps none. Each group says what still
proves the promise in every run.
"""

from collections.abc import Collection, Mapping
from typing import Final

_SCENARIOS: Final[Mapping[str, Mapping[str, str]]] = {
    # The same right at another step, for another topic or in the other mode. What a worker does without a right is in
    # what is kept here, in tests/unit/consumers (a write, a position, a topic that is forbidden) and in the ACL tests.
    # Wider rules of a cluster are Kafka's own; what the printed ones give is in security/test_least_rights.py.
    "security/test_denied_and_wildcard_rights.py": {
        "test_wider_rules_suffice": "",
        "test_a_denied_right_at_start": "name---topic-Read",
        "test_a_tier_that_may_not_be_described_any_more": "",
        "test_a_right_that_is_denied_while_the_group_runs": "",
        "test_an_output_that_is_not_listed_and_may_not_be_described": "",
        "test_a_saved_position_is_dropped_without_the_right_to_read_it": "",
        "test_a_control_topic_that_is_denied_while_the_source_grows": "",
        "test_a_worker_that_starts_without_the_right_to_read_the_control_topic": "",
        "test_a_source_that_is_denied_while_it_grows": "",
        "test_a_scheduler_that_starts_without_the_right_to_read_the_saved_positions": "",
    },
    # What waits for a right and what goes on: tests/unit/consumers/writes/test_missing_right.py; with the broker that
    # denies: test_each_right.py and test_least_rights.py.
    "security/test_write_forbidden.py": {
        "test_a_ready_topic": "",
        "test_a_dead_letter_topic": "",
        "test_an_output_topic": "",
        "test_the_journal": "",
    },
    "security/test_least_rights.py": {
        "test_every_record_arrives": "transacted",
        "test_a_policy_changes": "",
        "test_dead_letters_are_counted_and_expire": "",
        "test_an_operator_looks_at_a_group_and_pauses_it": "",
    },
    "security/test_each_right.py": {
        "test_a_process_that_may_not_write_to_the_control_topic_works": "",
        "test_a_right_is_revoked_while_the_group_runs": "",
    },
    # Which rows are the same is in tests/unit/consumers/test_inbox.py and handlers/test_once.py beside it.
    "worker/test_inbox.py": {
        "test_a_topic_that_was_created_again_is_not_skipped": "",
        "test_a_dead_letter_that_is_sent_again": "process",
    },
    "security/test_tls.py": {"test_a_certificate_that_cannot_be_verified": "host name"},
    "security/test_connections.py": {"test_a_fault_is_named": ""},
    "scheduler/test_hidden_ready_topic.py": {"test_a_hidden_ready_topic": ""},
    # What a forged record achieves: each row of docs/reference/attacks.md is in test_attacks.py and in
    # tests/unit/topology/redrive/test_forged_records.py.
    "security/test_attacks_on_actions.py": {
        "test_an_outcome_of_a_letter_that_was_not_sent": "",
        "test_records_that_are_deleted_by_hand": "",
        "test_progress_that_does_not_fit_the_job": "",
        "test_progress_that_fits": "",
        "test_progress_that_says_the_job_is_done": "",
        "test_a_cancellation": "",
        "test_a_job_that_is_being_written": "",
        "test_more_records_of_an_existing_job": "",
        "test_a_mark_that_says_how_often_a_letter_was_sent": "",
    },
    # The same with the other group protocol or another start; each step is in
    # tests/unit/consumers/flow/test_topics_created_again.py and scheduler/test_tiers_created_again.py beside it.
    "topology/test_topic_created_again.py": {
        "test_a_source_between_two_runs": "consumer-earliest",
        "test_a_source_while_a_worker_runs": "",
        "test_a_tier_between_two_runs": "",  # tests/unit/consumers/scheduler/test_tiers_created_again.py
        "test_a_tier_that_was_created_by_another_tool": "",
        "test_a_tier_and_a_ready_topic_while_the_group_runs": "",
        "test_a_source_that_is_added_again_after_its_ready_topic_was_deleted": "",
    },
    # Which ids are compared: tests/unit/topology/redrive/test_topic_ids.py. A running job and a purge are kept.
    "dead_letters/test_dead_letter_topic_created_again.py": {
        "test_another_systems_letters": "",
        "test_the_topics_of_the_jobs": "",
        "test_a_job_of_another_cluster": "",
        "test_a_job_of_an_earlier_version": "",
        "test_import": "",
        "test_edit": "",
        "test_between_creation_and_resume": "",
        "test_between_preview_and_answer": "redrive-True",
        "test_what_became_of_earlier_letters": "",
        "test_in_the_console": "",
        "test_it_is_empty_now": "",
    },
    # On a broker of its own; tests/unit/transport/clients/test_owned_producer.py has the rule, and every run kills a
    # worker whose id has expired (flow "expired" of tests/crash/test_kill_points.py).
    "worker/test_expired_transactional_id.py": {
        "test_the_owner_of_the_id_keeps_it": "",
        "test_worker_and_scheduler": "",
        "test_a_standby_of_eight_days": "",
        "test_expired_dead_letters_are_moved": "",
        "test_a_slow_job_of_redrive": "",
        "test_a_lock_is_taken_again": "",
    },
    # Lines of docs/operations.md; a source that grows is kept.
    "topology/test_grow_and_change.py": {
        "test_a_source_grows": "consumer",
        "test_a_delay_changes": "",
        "test_a_source_is_added": "",
    },
    "topology/test_added_partitions.py": {
        "test_what_is_written_while_no_worker_runs_is_handled": "",
        "test_the_control_topic_says_what_the_group_knows": "",
        "test_a_group_without_a_control_topic_gets_one": "",
    },
    "topology/test_operations_many_partitions.py": {"test_topics_are_narrowed": ""},
    "topology/test_shared_ready_topic.py": {"test_a_ready_topic_of_two_groups_is_refused": "0"},
    # Faults of the exchange with ActiveMQ; Artemis is drained in every run.
    "dead_letters/test_drain_activemq.py": {
        "test_drained": "artemis",  # tests/unit/dead_letters/foreign/test_activemq.py has the frames of both
        "test_what_only_one_broker_says": "",
        "test_another_reader_holds_messages": "",
        "test_ended_between_commit_and_acknowledgement": "",
        "test_killed_in_the_middle": "",
    },
    "dead_letters/test_import_letters_content.py": {
        "test_only_whole_content_is_taken": "",
        "test_a_queue_that_does_not_exist": "",
        "test_a_user_who_may_not_ask_artemis": "",
    },
    # Other systems: tests/unit/dead_letters/foreign reads every recorded letter.
    "dead_letters/test_foreign_letters.py": {
        "test_what_spring_says": "",
        "test_recorded_letters": "connect-orders-dlq",
        "test_recorded_in_2026": "share-dlq.s-rejectcopy",
        "test_dead_again": "",
        "test_a_system_that_is_not_known": "",
        "test_a_forged_mark": "",
        "test_a_letter_that_two_systems_claim": "",
        "test_what_is_refused": "",
    },
    # Spring, Connect and Streams: the same letters are recorded in tests/foreign, and units read them; every run sends
    # recorded letters, and those of a real share group.
    "dead_letters/test_live_systems.py": {"test_spring_connect_and_streams": ""},
    # Which letter gets which content: tests/unit/dead_letters/foreign and test_second_deaths.py beside it. Every run
    # fetches the record of a letter, and sends those of a real share group.
    "dead_letters/test_letters_without_content.py": {
        "test_neither_key_nor_value": "",
        "test_a_transaction_is_open": "",
        "test_a_source_cannot_be_read": "",
        "test_a_share_group_rejects_it_again": "",
        "test_another_share_group_rejects_it": "",
        "test_a_key_alone_of_a_system_that_is_not_known": "",
        "test_headers_that_were_left_out": "",
        "test_ours": "",
    },
    "dead_letters/test_dead_letters_expire.py": {
        "test_one_that_is_kept_keeps_those_behind_it": "",  # tests/unit/consumers/dead_letters/test_sweep_cursor.py
        "test_one_that_expires_no_longer_keeps_those_behind_it": "",
        "test_several_schedulers_share_the_work": "",
    },
    "dead_letters/test_sweep_forbidden.py": {
        "test_a_scheduler_that_may_not_delete_still_releases": "",
        "test_a_topic_that_may_not_be_read_holds_up_no_other": "",
    },
    "dead_letters/test_sweep_refused.py": {
        "test_a_refused_move_keeps_the_dead_letter": "",
        "test_a_refused_removal_is_logged_and_tried_again": "",
    },
    "dead_letters/test_show.py": {"test_values_of_a_registry": "", "test_two_letters_beside_each_other": ""},
    "dead_letters/test_redrive.py": {"test_what_is_selected_and_refused": ""},
    # Records of a job with an edited value: tests/unit/topology/redrive/test_edited.py.
    "dead_letters/test_edit.py": {
        "test_avro_is_written_with_its_own_schema": "",
        "test_what_is_not_sent": "",
        "test_a_value_of_several_records": "",
        "test_a_job_that_cannot_send_what_was_edited": "",
    },
    # What is selected: tests/unit/dead_letters/index. Every run lists, exports, discards and sends by a condition.
    "dead_letters/test_where.py": {"test_avro_values": ""},
    # Each way to lose an index ends in building it anew; one is kept.
    "dead_letters/test_previews.py": {
        "test_a_bit_that_flips_sends_nothing": "",
        "test_without_a_kept_index": "",
        "test_a_kept_index_that_cannot_be_written_any_more": "",
    },
    # One question on a terminal is kept; all commands ask in the same way.
    "dead_letters/test_questions.py": {"test_a_pause_of_the_whole_group": "", "test_the_end_of_a_job": ""},
    # Each command of the page has a test of its own beside it.
    "dead_letters/test_runbook_many_dead_letters.py": {"test_every_line_does_what_the_page_says": ""},
    "dead_letters/test_summary_every.py": {"test_a_line_for_each_change": ""},
    "dead_letters/test_story.py": {"test_what_is_not_known": ""},  # tests/unit/dead_letters/test_story_time.py
    # A damaged record of each topic: tests/unit/topology/redrive/test_ownership.py and test_notes.py.
    "worker/test_unreadable_records.py": {
        "test_records_that_are_no_dead_letters": "",
        "test_a_record_among_the_jobs": "",
        "test_a_summary_that_follows_goes_on": "",
        "test_an_outcome_that_cannot_be_read": "",
        "test_a_job_of_a_newer_version": "",
    },
    # The same from the failure to the recovery in a browser: tests/console/test_on_call.py; who may do what:
    # tests/integration/console/test_protection.py.
    "console/test_console.py": {
        "test_roles": "",
        "test_a_job_waits_when_the_console_stops": "",
        "test_from_a_failure_to_its_recovery": "",
        "test_one_letter": "",
        "test_nothing_is_changed_or_shown_that_should_not": "",
    },
    # The broker refuses or takes a password: a canary is in each secret in test_secrets_stay_secret.py beside it, and
    # tests/integration/cli/test_secrets.py has the importer.
    "security/test_secrets_of_commands.py": {"test_a_canary_as_the_password_of_activemq": ""},
    # Positions: tests/unit/consumers/flow has each decision about a first offset, also after retention and expiry.
    "worker/test_source_emptied_by_retention.py": {
        "test_a_deleted_position_halts_its_partition_alone": "consumer",
        "test_what_was_fetched_before_the_deletion_is_finished": "",
        "test_an_idle_position_lies_behind_the_marker": "",
        "test_what_is_finished_beyond_the_log_start_stays_finished": "",
    },
    "worker/test_expired_offsets.py": {
        "test_a_group_that_stops_in_order_may_stay_at_zero_for_a_month": "",
        "test_an_expired_offset_of_a_source": "",  # a deleted position has the same halt and the same fix
        "test_an_expired_offset_of_an_internal_topic": "",
        "test_a_saved_position_is_dropped_when_its_partition_is_read_again": "",
    },
    "worker/test_unreadable_control_topic.py": {
        "test_no_rebalance_waits_for_a_broker_that_does_not_answer": "",
        "test_a_rebalance_while_the_control_topic_has_a_bad_record": "",
    },
    "worker/test_missing_offset.py": {
        "test_a_deleted_group_without_a_control_topic_is_refused_at_start": "",
        "test_a_partition_that_is_added_by_hand_gets_its_first_offset": "",
    },
    "worker/test_start_at_the_end.py": {
        "test_a_new_group_handles_what_is_written_after_its_start": "transacted",
        "test_what_comes_during_a_slow_first_commit_is_handled": "",
        "test_no_delivered_record_is_skipped_after_a_crash_before_the_first_commit": "",
    },
    # Kafka goes away and comes back in tests/crash/test_unknown_outcomes.py and test_outages.py.
    "worker/test_kafka_restarts.py": {"test_worker_and_scheduler_outlive_their_kafka": ""},
    "worker/test_shutdown_without_kafka.py": {"test_kafka_is_gone": ""},
    # The other mode, role or cause of one rule, which tests/unit/consumers/writes has for all of them.
    "worker/test_refused_timestamps.py": {"test_the_clock_decides_about_no_record": ""},
    "scheduler/test_scheduler_clock_ahead.py": {
        "test_the_worker_holds_a_redelivery_until_it_is_due": "partition",
        "test_a_topic_that_refuses_the_clock_of_a_worker": "",
    },
    "worker/test_damaged_partition.py": {
        "test_a_worker_leaves_a_damaged_partition_alone": "",
        "test_a_damaged_dead_letter_does_not_end_the_count_of_the_others": "",
        "test_a_scheduler_leaves_a_damaged_partition_alone": "",
        "test_damaged_records_can_be_given_up": "",
    },
    "worker/test_registry_away.py": {
        "test_others_do_not_make_a_handler_be_called_again_and_again": "",
        "test_outputs_wait_uncounted": "",
    },
    "worker/test_halted_partitions.py": {
        "test_a_worker_goes_on_without_a_restart": "transacted",
        "test_a_scheduler_goes_on_without_a_restart": "",
        "test_compacted_topics_decide_about_no_record": "",  # tests/unit/consumers/writes/test_refused_by_configuration
    },
    "worker/test_compressed_records.py": {
        "test_its_copies_fit": "",  # tests/unit/transport/clients/test_owned_producer.py; sizes: test_large_records.py
        "test_only_that_write_is_compressed_so": "",
        "test_what_does_not_fit_halts_its_partition": "",
    },
    "worker/test_outdated_metadata.py": {"test_a_topic_that_is_deleted_and_created_again": "transacted"},
    "worker/test_output_disappears.py": {
        "test_no_record_is_blamed_and_the_other_partition_goes_on": "",  # writes/test_missing_topic.py
        "test_a_topic_that_is_not_listed_fails_its_deliveries": "",
    },
    "worker/test_foreign_metadata.py": {
        "test_a_worker_halts_the_partition_alone": "",
        "test_a_scheduler_halts_the_partition_alone": "",
    },
    "worker/test_two_of_one_name.py": {"test_both_run_at_once": ""},  # worker/test_fenced_worker.py
    "worker/test_several_handlers.py": {
        "test_a_killed_worker_loses_and_doubles_nothing": "",  # with one handler: worker/test_killed_worker.py
        "test_a_handler_that_does_not_return_stops_no_other_source": "threads",
    },
    # An exit in each kind of slot: tests/unit/consumers/handlers; what it does to the process of a task is in
    # tests/integration/pipeline, and a death that is counted in worker/test_client_died.py.
    "worker/test_handler_exits.py": {"test_an_exit_is_counted": ""},
    "worker/test_fenced_inside_a_write.py": {"test_fenced_before_it_is_aborted": ""},
    "worker/test_leave_on_stop.py": {"test_others_take_the_partitions_of_a_stopped_process": ""},
    "worker/test_small_batches.py": {"test_a_user_who_may_not_read_the_limit": ""},
    "worker/test_refused_writes.py": {
        "test_an_output_that_is_too_large": "",
        "test_dead_letters_that_are_refused_too": "",  # worker/test_halted_partitions.py
    },
    "worker/test_slots.py": {
        "test_asynchronous_handlers_overlap": "",
        "test_a_deadline_cancels_an_asynchronous_handler": "",
        "test_a_thread_past_its_deadline_is_given_up": "",
        "test_a_slow_call_delays_no_other_record": "",  # tests/unit/consumers/test_split.py
        "test_a_worker_without_a_free_slot_halts": "",
    },
    "worker/test_large_records.py": {
        "test_a_large_record_is_retried_and_dead_lettered": "transacted",
        "test_a_refused_batch_with_others_in_flight": "",
    },
    "worker/test_moved_offsets.py": {"test_metadata_beside_another_offset_is_ignored": ""},
    "worker/test_metadata_room.py": {"test_a_slow_record_among_fast_ones_holds_its_partition_up": ""},
    "worker/test_memory_of_headers.py": {"test_large_headers_do_not_fill_the_memory": ""},
    "worker/test_client_died.py": {"test_of_five_hundred_only_the_killer_is_counted": ""},
    "worker/test_frozen_worker.py": {"test_no_delivery_is_counted": ""},
    "worker/test_acknowledgement.py": {
        "test_individual_acknowledges_one_record": "",
        "test_lazy_modes_acknowledge_at_their_share_of_the_prefetch": "dups_ok",
        "test_lazy_acknowledgements_wait_for_their_time_limit_and_failures_do_not": "",
    },
    "scheduler/test_killed_scheduler.py": {
        "test_a_killed_scheduler_loses_and_doubles_nothing": "",  # tests/crash/test_kill_points.py has the steps
    },
    "scheduler/test_few_retry_partitions.py": {"test_a_source_that_grows": ""},
    "scheduler/test_order_of_retries.py": {"test_of_many_partitions": ""},
    "scheduler/test_rebalance_of_a_full_tier.py": {"test_a_second_scheduler_comes_and_goes": ""},
    "scheduler/test_many_foreign_topics.py": {"test_no_periodic_request_is_for_all_topics": ""},
    # Processes of the machine: each answer of a probe is in tests/unit/consumers/telemetry/test_health.py.
    "operations/test_probes.py": {
        "test_a_worker_is_not_ready_before_the_group_answers": "",
        "test_a_worker_whose_loop_hangs_is_not_alive": "",
        "test_a_worker_that_shuts_down_is_alive_but_not_ready": "",
        "test_a_process_whose_write_hangs_is_not_alive": "",
    },
    "operations/test_operations_scale.py": {"test_to_zero_and_back": ""},
    "operations/test_demo_faults.py": {
        "test_a_signal_ends_everything": "",
        "test_wrong_usage": "options0",
        "test_a_directory_in_use_is_refused": "",
    },
    "operations/test_broker_command.py": {"test_it_runs_until_sigterm": "", "test_another_version_runs": ""},
    # A fixture of a session is one per process, by pytest's own rule; what is said of a record that waits is in
    # tests/unit/cli/commands/test_status.py.
    "operations/test_pytest_plugin.py": {
        "test_each_process_of_xdist_has_a_kafka": "",
        "test_two_services_and_what_is_not_settled": "",
    },
    "operations/test_broker_keeps_its_data.py": {"test_a_restart_keeps_topics_records_and_the_port": ""},
    "topology/test_topology_broker_unavailable.py": {"test_port_of_another_service": ""},
    # The guard of a broker: tests/integration/transport/test_guard.py.
    "operations/test_broker_ends_with_its_parent.py": {"test_kill_9_of_the_parent_ends_the_brokers": ""},
    "operations/test_other_brokers.py": {"test_the_consumer_protocol_is_switched_off": ""},  # test_kafka_versions.py
    # tests/unit/consumers has the same: operations/test_open_transactions.py, dead_letters/test_sweep_cursor.py and
    # test_sweep_clock.py, writes/test_redrive_outcomes.py and test_committer.py.
    "operations/test_open_transactions.py": {"test_what_no_reader_sees_yet": ""},
    "dead_letters/test_sweep_topic_created_again.py": {"test_a_committed_offset_of_the_topic_before": ""},
    "dead_letters/test_sweep_with_a_wrong_clock.py": {"test_a_clock_that_is_days_ahead_removes_nothing_early": ""},
    "dead_letters/test_actions_topic_created_later.py": {"test_the_topic_is_created_while_they_run": ""},
    "worker/test_halt_commits_nothing_unwritten.py": {"test_a_refused_journal": ""},
    # An App in a program: what happens to its threads and its loop is in tests/unit/consumers/test_embedding.py and
    # handlers/test_host_loop.py beside it, names of processes in process/test_shared_name.py. Every run has a program
    # that runs both, and one whose block is cancelled; it kills a worker and a scheduler on their own.
    "worker/test_embedded.py": {
        "test_a_program_that_is_killed_loses_and_doubles_nothing": "",
        "test_processes_of_one_server_have_names_of_their_own": "",
        "test_records_of_a_block_that_ends_early_are_delivered_again": "cancelled",
        "test_a_blocked_loop_costs_no_partition_and_no_attempt": "",
        "test_a_handler_that_does_not_return_keeps_no_program": "",
        "test_a_loop_that_ends_with_all_its_tasks_fails_no_record": "",
        "test_a_worker_that_fails_ends_the_block": "",
        "test_a_server_may_import_the_app_and_fork": "",
    },
    # Another cause, parameter or order of one rule. In tests/unit/consumers: outages and batches in test_outages.py and
    # test_batches_in_a_worker.py; resources, values and expiry in handlers; duplicates and aborted writes in writes;
    # shares of the buffer in flow/test_fetcher.py; a source that is gone and a clock ahead in scheduler/test_release.py
    # and test_clock_set_back.py; delays in tests/unit/topology/policy.
    "worker/test_outage.py": {"test_a_probe_is_asked_once_a_pause_for_the_group": ""},
    "worker/test_batches.py": {
        "test_each_record_of_a_batch_has_its_own_outcome": "process",
        "test_a_failed_record_blocks_its_key_and_a_suspect_comes_alone": "",
        "test_a_worker_that_stops_or_loses_partitions_while_batches_wait": "",
    },
    "worker/test_async_resources.py": {"test_a_connection_lasts_from_the_start_to_the_end": "tasks"},
    "worker/test_invalid_value.py": {"test_a_value_that_does_not_fit_is_dead_lettered_at_once": "none"},
    "worker/test_fairness.py": {
        "test_redeliveries_and_fresh_records_share_the_slots": "",
        "test_a_backlog_of_one_partition_does_not_delay_the_others": "",
    },
    "worker/test_missing_outputs.py": {"test_a_topic_that_a_handler_may_not_emit_to_fails_its_record_alone": ""},
    "worker/test_policy_limits.py": {
        "test_a_policy_is_exhausted_after_its_last_delivery": "2",
        "test_minus_one_is_no_limit": "",
    },
    "worker/test_dialects.py": {"test_a_worker_with_policy_maps": "individual"},
    "worker/test_ready_records_of_others.py": {
        "test_a_delivery_count_of_twelve_digits": "",
        "test_a_damaged_lineage_keeps_what_can_be_read": "",
    },
    "scheduler/test_deleted_tier_records.py": {"test_deleted_records_of_a_tier_halt_their_partition_alone": ""},
    "worker/test_expiration.py": {"test_an_expired_record_is_discarded_and_counted": ""},
    "worker/test_writes_aborted_in_a_row.py": {"test_without_endurance_the_id_stays": ""},
    "worker/test_dropped.py": {"test_a_duplicate_is_not_dead_lettered_twice_and_a_redriven_record_is": ""},
    "scheduler/test_removed_source.py": {"test_retries_of_a_removed_source_wait_until_it_is_back": ""},
    "scheduler/test_delays_between_tiers.py": {"test_collision_avoidance": ""},
    "scheduler/test_scheduler_faults.py": {"test_a_clock_that_is_an_hour_ahead": ""},
    "scheduler/test_scheduler_missing.py": {
        "test_a_cluster_that_does_not_answer_is_no_missing_scheduler": "",
        "test_running_processes_do_not_know_the_members_of_the_consumer_protocol": "",
    },
    "topology/test_topology_apply.py": {"test_apply_leaves_first_offsets_to_running_members": ""},
    "topology/test_topology_retired_tier.py": {"test_a_retired_tier_is_reported_until_it_is_empty": ""},
    # Commands: the story of a record is in dead_letters/test_story.py, each answer of `find` in
    # tests/unit/consumers/operations/test_find.py, an outage of an operator in tests/unit/consumers/test_outages.py and
    # on the pages of the console in tests/unit/cli/console; `status` has its other faults and members in tests/unit/cli
    # and in the tests that are kept here.
    "operations/test_find.py": {"test_a_dead_letter_has_the_answer_of_its_last_story": ""},
    "operations/test_outage_command.py": {"test_in_the_console": "", "test_wrong_usage": ""},
    "operations/test_status_of_halts.py": {"test_a_scheduler_that_hangs": "", "test_a_compacted_dead_letter_topic": ""},
    "operations/test_status_of_unnamed.py": {
        "test_two_workers_without_a_name_are_two_members": "classic",
        "test_members_of_the_consumer_protocol": "",
    },
    "operations/test_metrics.py": {"test_lag_grows_while_a_partition_is_not_fetched": ""},
}

_OTHERS: Final[Mapping[str, Mapping[str, str]]] = {
    # Tasks of a micro-batch, the rules of checkpoints and positions: tests/unit/pipeline (166 cases of a task alone),
    # and a handler's misbehaviour: tests/integration/pipeline. Every run has the query on Spark from the first record
    # to the last, in an outage, and with a transformation whose rows go to Kafka and to a table.
    "tests/pipeline/test_stream_misbehaviour.py": {
        "test_a_query_without_a_listed_output_is_refused": "",
        "test_a_query_writes_the_same_records_as_a_worker": "",
        "test_an_executor_without_a_package_ends_the_query": "",
        "test_only_the_record_at_fault_fails": "",
    },
    # An outage in a run for what is there now has each step of a longer one but the wait, which tests/unit has.
    "tests/pipeline/test_stream_outage.py": {"test_a_query_waits_for_what_is_away_and_goes_on": ""},
    # Slots: tests/unit/pipeline/task/test_task_run.py (records that end out of order) and
    # tests/integration/pipeline/test_concurrent.py (a killed process, the order of keys).
    "tests/pipeline/test_stream_slots.py": {"test_each_record_has_one_outcome": ""},
    # On Spark every run has one outcome for each record; filters: tests/unit/pipeline/handler/test_computed.py, sources
    # that grow: tests/unit/pipeline/stream/test_available_now.py, a second query: tests/unit/test_spark.py.
    "tests/pipeline/test_dataframes.py": {
        "test_records_may_be_filtered_away": "",
        "test_a_source_grows_while_a_run_settles": "",
        "test_a_cell_of_a_notebook_runs_again": "",
    },
    # Spans and links: tests/unit/pipeline/handler, tests/unit/consumers/handlers; a worker's story is in every run.
    "tests/pipeline/test_stream_traces.py": {"test_the_life_of_a_record": ""},
    "tests/pipeline/test_stream_settles.py": {"test_a_run_settles_a_group_without_another_process": ""},
    "tests/pipeline/test_stream.py": {
        "test_a_checkpoint_ahead_of_the_group_is_refused": "",
        "test_a_query_runs_in_another_thread_of_a_running_application": "",
        "test_a_vectorised_handler_fails_single_rows": "",
    },
    "tests/pipeline/test_stream_topic_created_again.py": {
        "test_a_source_while_the_query_runs": "",
        "test_a_source_between_two_runs": "",
    },
    "tests/pipeline/test_stream_saved_positions.py": {"test_what_a_query_has_handled_is_not_handled_again": ""},
    "tests/pipeline/test_stream_expired_offsets.py": {"test_a_run_neither_skips_nor_repeats_and_names_the_command": ""},
    "tests/pipeline/test_stream_metrics.py": {"test_the_endpoint_reports_the_query": ""},
    "tests/pipeline/test_deleted_positions.py": {"test_a_run_handles_the_other_partitions_and_names_the_command": ""},
    "tests/pipeline/test_submitted.py": {"test_submitted_settings_override_the_configuration": ""},
    "tests/pipeline/test_manifests.py": {"test_stream": ""},
    "tests/pipeline/test_rights_to_count.py": {"test_no_figures_without_a_right": ""},
    # Jobs: the archive is written, read, compacted and erased from in every run, and a group is audited. Letters that
    # were removed before: tests/unit/pipeline/archive/test_positions.py; a table of an earlier version, its days and
    # its order: tests/pipeline/test_erase.py.
    "tests/pipeline/test_audit.py": {
        "test_a_source_that_was_created_again": "",
        "test_entries_of_an_older_source_hide_no_loss": "",
    },
    "tests/pipeline/test_archive.py": {
        "test_a_table_of_parquet_is_refused": "",
        "test_a_table_of_an_earlier_version_has_the_new_columns": "",
        "test_letters_removed_before_they_are_archived_are_reported": "",
        "test_a_topic_that_was_created_again": "",
        "test_a_batch_that_is_written_again_is_in_the_table_once": "",
    },
    "tests/pipeline/test_delta_table.py": {"test_it_is_divided_by_day_and_ordered_by_origin": ""},
    "tests/pipeline/test_pods.py": {"test_outside_of_kubernetes_it_says_what_is_missing": ""},
    # A table is converted once, by a command of its own, and nothing else runs that code: `--long` alone proves it.
    "tests/pipeline/test_earlier_tables.py": {
        "test_a_table_of_an_earlier_version_is_continued": "",
        "test_what_cannot_be_converted_is_unchanged": "",
    },
    "tests/pipeline/test_report.py": {"test_an_empty_report_has_a_page": ""},
    "tests/pipeline/test_audit_states.py": {"test_entries_of_an_older_topic_do_not_count": ""},
    # One container each of what starts, stops and is killed; the processes themselves: tests/scenarios, tests/crash.
    "tests/containers/test_stopped_and_killed.py": {
        "test_a_killed_worker_continues_under_its_name": "",  # the same in tests/scenarios/worker/test_killed_worker.py
        "test_a_worker_that_is_still_starting_stops_immediately": "",
        "test_a_stopped_worker_hands_over": "",
    },
    "tests/containers/test_kafka_container.py": {"test_without_any_environment_it_is_one_node": ""},
    "tests/containers/test_first_process.py": {"test_no_zombie_stays_behind": ""},  # of the image of Spark, as its pods
    # They are the checks of the design, which are long themselves.
    "tests/console/test_design_checks.py": {
        "test_what_overlaps_or_sticks_out_is_found": "",
        "test_barriers_are_found": "",
    },
    # The day on call is played in every run; roles, forms, names and addresses: tests/integration/console and
    # tests/unit/cli/console. Every run logs in, posts a form from another site, and reads a letter with a payload.
    "tests/console/test_views.py": {
        "test_live_updates_keep_still": "",
        "test_view": "",
        "test_colours": "",
        "test_a_letter_before_the_index": "",
        "test_a_slow_network_moves_nothing": "",
    },
    "tests/console/test_roles.py": {
        "test_an_operator_acts_in_their_own_name": "",
        "test_hidden_payloads": "",
        "test_a_viewer_reads_and_cannot_act": "",
        "test_a_forged_form_is_refused": "",
        "test_a_name_that_leads_here_is_refused": "",
        "test_a_login_leads_to_no_other_site": "",
        "test_strangers_are_not_let_in": "",
    },
    "tests/console/test_hostile_letters.py": {
        "test_addresses_are_shown_as_text": "",
        "test_a_letter_is_shown_as_text": "4",
        "test_lists_show_them_as_text": "",
    },
    "tests/console/test_keyboard.py": {
        "test_skip_link": "",
        "test_help_and_places": "",
        "test_search": "",
        "test_a_chosen_row_stays_chosen": "",
    },
    # A measurement runs the workloads themselves.
    "tests/bench/test_bench.py": {"test_the_command_measures_and_loses_nothing": ""},
    # Each step of an outage, and of an unknown outcome: tests/unit/consumers/test_outages.py and
    # writes/test_repeated_writes.py. Every run kills workers and schedulers (test_kill_points.py), also in an outage
    # (tests/scenarios/worker/test_outage.py), and has one that is fenced (test_fenced_worker.py beside it).
    "tests/crash/test_protocols.py": {"test_others_come_and_go": ""},
    "tests/crash/test_killed_in_an_outage.py": {"test_death_at": ""},
    "tests/crash/test_unknown_outcomes.py": {"test_a_commit_whose_answer_is_not_heard": ""},
    "tests/crash/test_zombies.py": {"test_stopped_until_others_have_done_its_work": ""},
    "tests/crash/test_sweeper.py": {"test_death_between_the_move_and_the_removal": "commit:before:1:die"},
    "tests/crash/test_mode_auto.py": {"test_auto_is_at_least_once": "worker"},
    # tests/unit/consumers/writes/test_repeated_writes.py, and a worker that is killed there (flow "aborted").
    "tests/crash/test_repeated_writes.py": {
        "test_a_rebalance_before_the_repetition": "",
        "test_no_record_is_handled_again": "",
    },
    # The handler's process on Spark: every run has each fault once; a worker's child processes share the rules
    # (tests/integration/consumers), and tests/unit/pipeline/handler and tests/unit/consumers/handlers have them alone.
    "tests/integration/pipeline/test_dependency_away.py": {
        "test_each_slot_calls_once_and_all_records_wait": "closed-process4-4",
        "test_a_missed_deadline_may_mean_that_it_is_away": "process1",
    },
    "tests/integration/pipeline/test_several_handlers.py": {
        "test_a_record_that_kills_the_process_fails_alone": "",
        "test_each_has_its_own_deadline": "",
        "test_values_are_converted_to_the_type_of_each_handler": "",
    },
    "tests/integration/pipeline/test_exits_and_resources.py": {
        "test_an_exit_fails_its_record": "handle_async-[b'sys.exit', b'gather', b'group']-{'slots': 2}",
        "test_an_asynchronous_resource_is_open_during_all_calls": "{'slots': 2}",
    },
    "tests/integration/pipeline/test_handler_unavailable.py": {"test_records_wait_until_it_is_back": ""},
    "tests/integration/pipeline/test_process.py": {
        "test_a_record_that_has_just_begun_is_not_killed_for_the_one_before": "",
        "test_a_deadline_is_noticed_while_records_are_given": "",
        "test_a_death_is_detected_while_a_process_of_the_handler_lives": "",
        "test_a_missed_deadline_is_not_called_a_death": "",
    },
    "tests/integration/pipeline/test_registry_away.py": {
        "test_each_record_has_its_outcome": "2",
        "test_a_registry_that_hangs_is_no_missed_deadline": "",
    },
    # The clock of a frozen process: tests/integration/consumers/test_running_time.py.
    "tests/integration/pipeline/test_frozen.py": {"test_the_handler_is_not_killed_after_a_freeze": ""},
    "tests/integration/transport/test_reader_positions.py": {
        "test_records_that_are_given_back_are_fetched_again": "transactions",
        "test_a_paused_partition_goes_on_where_it_was_sought": "transactions-False-7",
    },
    "tests/integration/pipeline/test_concurrent.py": {
        "test_records_of_several_partitions_are_handled_at_a_time": "",
        "test_records_of_several_keys_are_handled_at_a_time": "",
        "test_the_order_is_kept": "key",
        "test_the_order_is_kept_when_the_process_dies": "",
        "test_a_missed_deadline_fails_one_record": "",
        "test_with_isolation_a_record_kills_only_its_own_process": "",
        "test_a_coroutine_that_misses_its_deadline_fails": "",
    },
    "tests/integration/consumers/test_running_time.py": {"test_a_child_of_the_pool_is_not_killed_after_a_freeze": ""},
    # A child of a pool: what the parent sees of it is in tests/unit/consumers/handlers/test_child.py.
    "tests/integration/consumers/test_child_process_pool.py": {
        "test_a_child_that_is_stopped_before_it_has_the_record_misses_the_deadline": "",
        "test_a_program_that_starts_its_app_when_it_is_imported_is_not_started_again": "",
        "test_no_slot_waits_for_children_that_others_try_to_start": "",
        "test_a_record_waits_while_no_child_can_be_started": "away-ConnectionError.*the database is away",
    },
    "tests/integration/cli/test_closed_pipe.py": {
        "test_nothing_reads_the_output": "topology acls",
        "test_a_reader_stops_before_the_end_of_the_help": "",
    },
    "tests/integration/cli/test_broker_extra.py": {
        "test_broker_names_the_missing_package_and_how_to_install_it": "requests"
    },
    "tests/integration/console/test_pages.py": {"test_no_page_has_what_the_policy_refuses": "False"},
    "tests/integration/console/test_connections.py": {"test_a_slow_reader_gets_all": "False"},
    "tests/integration/console/test_form_sizes.py": {"test_an_edited_value_of_8_mib_fits": ""},
    "tests/integration/console/test_task_without_number.py": {
        "test_the_number_agrees": "",
        "test_no_needs_no_number": "",
    },
    "tests/integration/topology/test_hostile_xml.py": {
        "test_a_pattern_of_half_a_megabyte_is_refused": "",
        "test_too_many_elements_are_refused": "",  # its attributes are limited in the same way
        "test_too_many_sources_are_left_out": "",
    },
    # A connection of Django: tests/unit/consumers/test_inbox.py.
    "tests/integration/examples/test_services.py": {"test_its_own_tests_pass": "fastapi_service-4"},
    # Child processes of an installed handler start like those of tests/integration/consumers.
    "tests/packaging/test_installed.py": {"test_a_worker_runs_the_projects_handler": "none"},
    # The data of a package whose version is pinned.
    "tests/integration/examples/test_wire.py": {
        "test_broken_records_are_broken_in_many_ways": "",
        "test_no_broken_record_can_be_decoded": "",
    },
    "tests/integration/examples/test_scenario.py": {"test_the_other_flights_follow_day_by_day": ""},
    "tests/integration/examples/test_data.py": {
        "test_january_and_the_year_are_complete": "",
        "test_what_is_not_available_is_none": "",
        "test_a_departure_has_one_identity": "",
    },
}

RARE: Final = {**{f"tests/scenarios/{path}": kept for path, kept in _SCENARIOS.items()}, **_OTHERS}


def is_rare(path: str, function: str, parameters: str) -> bool:
    """Return whether every run leaves out a test.

    Args:
        path: its file, from the root of the repository.
        function: its name.
        parameters: the text in brackets after it.
    """
    kept = RARE.get(path, {}).get(function)
    return kept is not None and (kept == "" or kept != parameters)


def lost_choices(tests: Collection[tuple[str, str, str]]) -> list[str]:
    """Return what the tables name and no test has; ``tests`` are all tests, as for :func:`is_rare`."""
    functions = {(path, function) for path, function, _ in tests}
    named = [(path, function, kept) for path, each in RARE.items() for function, kept in each.items()]
    return [
        f"{path}::{function}[{kept}]"
        for path, function, kept in named
        if ((path, function, kept) not in tests if kept else (path, function) not in functions)
    ]
