"""Tests that take as long as a hundred others, while quicker ones ask the same in a smaller way, so that a
newcomer's run is short.

By file: names of tests, whole ones or single cases of them. A name that no test has is an error."""

LONGER = {
    "tests/pipeplan/studies/compare/test_stale.py": [
        "test_a_helper_that_a_plug_in_imports_late_is_part_of_its_code",
        "test_a_run_is_refused_where_the_code_is_no_longer_what_the_run_names",
        "test_another_version_of_this_program_or_of_a_solver_repeats_all",
    ],
    "tests/planners/chain/test_layer_sets.py": [
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-1-at once]",
    ],
    "tests/formulations/beaumont/test_given_allocation.py": [
        "test_exclusive_buffers_are_kept",
        "test_theorem_3_holds_with_the_sizes_corrected[printed-no-split-ilp-beaumont-cp-sat]",
        "test_theorem_3_holds_with_the_sizes_corrected[printed-no-split-ilp-beaumont-highs]",
    ],
    "tests/formulations/beaumont/test_known_periods.py": [
        "test_an_overrun_slot_is_reported_and_can_be_forbidden[ilp-beaumont-highs]",
        "test_chains_of_the_theory[figure-4-ilp-beaumont-cp-sat]",
        "test_chains_of_the_theory[figure-4-ilp-beaumont-highs]",
        "test_chains_of_the_theory[lemma-3-2-5-3-ilp-beaumont-cp-sat]",
        "test_chains_of_the_theory[lemma-3-2-5-3-ilp-beaumont-highs]",
        "test_chains_of_the_theory[theorem-1-k2-cp-beaumont-cp-sat]",
        "test_chains_of_the_theory[theorem-1-k3-cp-beaumont-cp-sat]",
        "test_chains_of_the_theory[theorem-2-6-6-8-6-7-7-ilp-beaumont-cp-sat]",
        "test_chains_of_the_theory[theorem-2-6-6-8-6-7-7-ilp-beaumont-highs]",
        "test_golden_chains[golden-2-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-2-ilp-beaumont-highs]",
        "test_golden_chains[golden-3-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-3-ilp-beaumont-highs]",
        "test_golden_chains[golden-4-ilp-beaumont-highs]",
        "test_golden_chains[golden-6-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-7-ilp-beaumont-highs]",
    ],
    "tests/formulations/graphpipe/test_cp_graphpipe.py": [
        "test_nasty_numbers_in_all_units[0]",
    ],
    "tests/formulations/graphpipe/test_cp_graphpipe_iteration.py": [
        "test_stages_of_one_size_alone",
    ],
    "tests/formulations/piper/test_near_stages.py": [
        "test_where_few_stages_may_be_listed_limits_rise_step_by_step[12]",
    ],
    "tests/formulations/piper/test_piper_columns.py": [
        "test_bert_is_proven_within_a_thousandth_by_the_columns_alone[8-8-8-0.16585575000000002]",
        "test_published_graphs_have_the_published_numbers_of_sets[resnet-242-28729]",
    ],
    "tests/formulations/tarnawski_latency/test_cells.py": [
        "test_a_time_limit_ends_the_division_of_a_large_cell[False]",
        "test_a_time_limit_ends_the_division_of_a_large_cell[True]",
        "test_machine_code_finds_the_same",
        "test_no_plan_is_better_than_the_bounds",
        "test_what_a_time_limit_has_ended_goes_on_where_it_stopped",
    ],
    "tests/formulations/test_decimal_rows.py": [
        "test_rows_in_decimals_are_exact_or_called_rounded[ilp-beaumont]",
        "test_rows_in_decimals_are_exact_or_called_rounded[ip-tarnawski-latency]",
        "test_rows_in_decimals_are_exact_or_called_rounded[ip-tarnawski]",
        "test_rows_in_decimals_are_exact_or_called_rounded[mip-piper]",
    ],
    "tests/formulations/zero_bubble/test_finite_bounds.py": [
        "test_filling_and_draining_cost_time_together[16-64-times1-1-32-2160]",
    ],
    "tests/formulations/zero_bubble/test_finite_models.py": [
        "test_a_limit_is_kept_to_the_last_of_twenty_digits[0-method1]",
        "test_a_limit_is_kept_to_the_last_of_twenty_digits[inf-method1]",
        "test_a_start_is_an_incumbent_of_the_models",
        "test_models_agree_with_enumeration[0-method0]",
        "test_models_agree_with_enumeration[0-method1]",
        "test_no_bound_exceeds_the_optimum[0]",
    ],
    "tests/formulations/zero_bubble/test_finite_orders.py": [
        "test_times_of_given_orders_are_never_worse[makespan-0]",
    ],
    "tests/formulations/zero_bubble/test_periodic.py": [
        "test_periods_of_shapes[nn-4]",
        "test_plenty_of_memory_leaves_the_load[nn]",
    ],
    "tests/formulations/zero_bubble/test_standstills.py": [
        "test_most_problems_of_these_tests_have_a_standstill",
    ],
    "tests/instances/graph_pipeline/test_series_parallel.py": [
        "test_deep_nesting_needs_no_recursion",
    ],
    "tests/instances/networks/profile/test_malformed_tables.py": [
        "test_one_sentence_says_where_and_what_to_do[header alone]",
        "test_one_sentence_says_where_and_what_to_do[no Excel file]",
    ],
    "tests/instances/placement/test_contiguity.py": [
        "test_long_chains_need_no_recursion",
    ],
    "tests/instances/staging/test_staged_referee.py": [
        "test_every_published_plan_is_recomputed",
    ],
    "tests/instances/test_bombs.py": [
        "test_a_bomb_is_refused_at_once[a footer that lies]",
        "test_a_bomb_is_refused_at_once[a key at the end that is repeated]",
        "test_a_bomb_is_refused_at_once[many cells in a row]",
        "test_a_bomb_is_refused_at_once[one long text]",
    ],
    "tests/instances/timeline/test_compiled_iteration.py": [
        "test_a_million_passes_take_the_closed_form",
        "test_both_agree_on_times_and_on_what_cannot_be_run[range(0, 150)]",
    ],
    "tests/instances/training/test_seconds.py": [
        "test_published_times_on_a100",
    ],
    "tests/pipeplan/models/export/test_many_plans.py": [
        "test_it_comes_back_or_is_refused_with_what_to_ask_for[a chain-torch]",
        "test_it_comes_back_or_is_refused_with_what_to_ask_for[a chain-torchtitan]",
        "test_it_comes_back_or_is_refused_with_what_to_ask_for[a graph of stages-torch]",
        "test_it_comes_back_or_is_refused_with_what_to_ask_for[a training configuration-sglang]",
    ],
    "tests/pipeplan/models/export/test_schedules.py": [
        "test_the_command_writes_the_file",
        "test_the_notes_say_which_device_is_which_rank",
    ],
    "tests/pipeplan/models/export/test_training_exports.py": [
        "test_random_configurations_come_back_or_are_refused_in_one_sentence[0]",
        "test_random_configurations_come_back_or_are_refused_in_one_sentence[100]",
        "test_random_configurations_come_back_or_are_refused_in_one_sentence[200]",
        "test_random_configurations_come_back_or_are_refused_in_one_sentence[300]",
    ],
    "tests/pipeplan/show/test_answer.py": [
        "test_an_even_split_of_a_graph_tells_its_micro_batches_where_the_plan_has_others",
    ],
    "tests/pipeplan/show/test_browser.py": [
        "test_a_page_is_printed_on_few_sheets",
        "test_every_part_is_seen_and_the_console_is_silent[comparison-desk]",
        "test_every_part_is_seen_and_the_console_is_silent[comparison-phone]",
        "test_every_part_is_seen_and_the_console_is_silent[configurations of a training-desk]",
        "test_every_part_is_seen_and_the_console_is_silent[configurations of a training-phone]",
        "test_every_part_is_seen_and_the_console_is_silent[golden-4-phone]",
        "test_every_part_is_seen_and_the_console_is_silent[pareto of stagings-phone]",
        "test_every_part_is_seen_and_the_console_is_silent[tiny-stages-desk]",
        "test_every_part_is_seen_and_the_console_is_silent[zero-bubble-4x12-desk]",
        "test_every_part_is_seen_and_the_console_is_silent[zero-bubble-4x12-phone]",
        "test_one_page_of_each_kind_is_readable[comparison]",
        "test_one_page_of_each_kind_is_readable[configurations of a training]",
        "test_one_page_of_each_kind_is_readable[pareto of stagings]",
        "test_one_page_of_each_kind_is_readable[resnet34-chain]",
        "test_one_page_of_each_kind_is_readable[run]",
        "test_one_page_of_each_kind_is_readable[tiny-graph]",
        "test_one_page_of_each_kind_is_readable[zero-bubble-4x12]",
        "test_the_keyboard_reaches_every_heading_and_chart_of_a_training",
        "test_the_shortlist_of_a_training_sorts_by_click_and_by_keyboard",
    ],
    "tests/pipeplan/show/test_canvas.py": [
        "test_axes_have_round_numbers_from_zero_on_and_enough_digits",
        "test_the_ink_of_an_svg_is_that_of_the_page_and_black_on_paper",
    ],
    "tests/pipeplan/show/test_explore_page.py": [
        "test_everything_can_be_read[desk-dark]",
        "test_everything_can_be_read[desk-light]",
        "test_fifty_settings_give_what_the_simulator_gives",
    ],
    "tests/pipeplan/show/test_iteration.py": [
        "test_an_even_split_that_does_not_fit_says_by_how_much[on2]",
    ],
    "tests/pipeplan/show/test_latency_picture.py": [
        "test_the_picture_is_the_same_for_the_same_plan",
    ],
    "tests/pipeplan/show/test_picture_legibility.py": [
        "test_everything_can_be_read[latency]",
        "test_everything_can_be_read[periods]",
        "test_everything_can_be_read[placement]",
    ],
    "tests/pipeplan/show/test_plan_pictures.py": [
        "test_a_pattern_shows_tasks_batches_links_and_memory",
        "test_every_kind_has_a_picture[graph-pipeline]",
        "test_every_kind_has_a_picture[placement]",
        "test_every_kind_has_a_picture[schedule]",
        "test_every_kind_has_a_picture[training]",
        "test_levels_and_latency_have_pictures_of_their_own[tiny-chain-latency-greedy]",
        "test_levels_and_latency_have_pictures_of_their_own[tiny-levels-dp-piper]",
        "test_odd_names_are_drawn_as_they_are",
        "test_several_batches_per_period_have_their_own_labels",
    ],
    "tests/pipeplan/show/test_readable_units.py": [
        "test_units_suit_eyes_wherever_a_packaged_instance_is_shown[chain-resnet18-training-chain]",
        "test_units_suit_eyes_wherever_a_packaged_instance_is_shown[graph-pipeline-tiny-graph]",
        "test_units_suit_eyes_wherever_a_packaged_instance_is_shown[schedule-zero-bubble-4x12]",
        "test_units_suit_eyes_wherever_a_packaged_instance_is_shown[staging-bert-large-stages]",
    ],
    "tests/pipeplan/show/test_report.py": [
        "test_a_comparison_has_values_profile_and_every_run",
        "test_every_kind_of_plan_has_its_parts[case-study-graphpipe-parts2]",
    ],
    "tests/pipeplan/show/test_stage_graph_picture.py": [
        "test_random_plans_give_the_same_picture_again",
    ],
    "tests/pipeplan/show/test_words.py": [
        "test_answer_table_legend_and_timeline_have_one_unit[s-case-study-graphpipe]",
    ],
    "tests/pipeplan/studies/compare/test_comparison.py": [
        "test_a_dollar_in_a_label_is_a_dollar",
        "test_the_files_of_a_comparison",
    ],
    "tests/pipeplan/studies/compare/test_for_papers.py": [
        "test_the_table_names_methods_that_ran_once",
        "test_after_the_runs_the_solvers_are_known_as_well",
        "test_points_of_profiles_are_written_and_drawn",
        "test_tables_and_profiles_compile",
        "test_the_page_names_the_files_that_are_written",
        "test_the_tables_are_latex",
    ],
    "tests/pipeplan/studies/test_export_page.py": [
        "test_every_block_of_rows_and_columns_has_its_words[chain as printed]",
        "test_every_block_of_rows_and_columns_has_its_words[chain with transfers]",
        "test_every_block_of_rows_and_columns_has_its_words[columns, flushed]",
        "test_every_block_of_rows_and_columns_has_its_words[columns, levels]",
        "test_every_block_of_rows_and_columns_has_its_words[latency plain]",
        "test_every_block_of_rows_and_columns_has_its_words[latency]",
        "test_every_block_of_rows_and_columns_has_its_words[plain gpipe]",
        "test_every_block_of_rows_and_columns_has_its_words[stages in memory]",
        "test_numbers_in_names_are_told",
        "test_rows_and_columns_are_those_of_the_file[chain-.lp]",
        "test_rows_and_columns_are_those_of_the_file[columns-.lp]",
        "test_rows_and_columns_are_those_of_the_file[columns-.mps]",
        "test_rows_and_columns_are_those_of_the_file[plain-.mps]",
        "test_rows_and_columns_are_those_of_the_file[schedule-.mps]",
    ],
    "tests/pipeplan/studies/test_memory_curve.py": [
        "test_the_command_writes_table_points_csv_and_picture_and_goes_on[tiny-stages]",
    ],
    "tests/pipeplan/studies/test_pareto.py": [
        "test_a_sweep_that_was_killed_goes_on_from_its_last_whole_line[0]",
        "test_a_sweep_that_was_killed_goes_on_from_its_last_whole_line[1]",
        "test_a_sweep_that_was_killed_goes_on_from_its_last_whole_line[2]",
        "test_points_become_csv_and_pictures",
    ],
    "tests/pipeplan/studies/test_schedule_comparison.py": [
        "test_the_command_prints_the_table_and_refuses_what_is_for_one_schedule",
        "test_what_does_not_fit_says_how_much_it_needs",
    ],
    "tests/pipeplan/studies/test_schedule_curve.py": [
        "test_the_command_writes_table_points_csv_and_picture_and_goes_on",
    ],
    "tests/pipeplan/studies/test_schedule_studies.py": [
        "test_every_point_of_the_study_is_the_optimum_with_so_much_memory",
        "test_the_command_says_what_each_change_is_worth",
    ],
    "tests/pipeplan/studies/test_training_curve.py": [
        "test_the_command_draws_json_table_and_picture",
    ],
    "tests/pipeplan/test_cli_compare.py": [
        "test_a_suite_of_ones_own_finds_files_that_stand_beside_it",
        "test_a_table_is_compared_with_the_options_that_make_a_problem_of_it",
        "test_no_plan_at_all_is_exit_code_1",
        "test_resume_goes_on_and_without_it_a_comparison_is_safe",
        "test_what_stands_in_for_published_inputs_is_said_before_the_first_run",
    ],
    "tests/pipeplan/test_cli_generate_chains.py": [
        "test_the_allocation_of_theorem_3_can_be_handed_on",
    ],
    "tests/pipeplan/test_cli_graph_pipeline.py": [
        "test_the_table_fits_and_names_its_units",
        "test_what_would_be_wider_can_be_asked_for[method0]",
        "test_what_would_be_wider_can_be_asked_for[method1]",
    ],
    "tests/pipeplan/test_cli_import.py": [
        "test_a_result_knows_its_cluster[cluster0]",
        "test_eight_devices_in_two_nodes",
        "test_four_devices_in_every_kind[graph-pipeline-method3]",
        "test_the_report_of_a_table_repeats_its_command_and_what_was_assumed",
    ],
    "tests/pipeplan/test_cli_memory.py": [
        "test_the_answer_is_one_sentence_for_every_kind[golden-4]",
        "test_the_answer_is_one_sentence_for_every_kind[tiny-graph]",
    ],
    "tests/pipeplan/test_cli_pareto.py": [
        "test_a_file_that_lacks_what_this_version_keeps_is_to_be_begun_anew[levels-zero-bubble-4x12]",
    ],
    "tests/pipeplan/test_cli_pictures.py": [
        "test_a_pattern_shows_its_memory_over_the_period",
        "test_solve_and_show_draw_the_same_picture",
        "test_terminal_and_picture_show_one_view_of_a_plan[words1]",
        "test_the_pipeline_is_unrolled_on_demand",
    ],
    "tests/pipeplan/test_cli_processes.py": [
        "test_a_job_in_the_background_of_a_script_hears_sigterm_alone",
        "test_a_killed_solver_costs_itself_only",
        "test_an_interrupt_prints_and_saves_the_incumbent[15]",
    ],
    "tests/pipeplan/test_cli_profile.py": [
        "test_methods_without_a_solver_do_without_a_modelling_language",
    ],
    "tests/pipeplan/test_cli_schedule.py": [
        "test_memory_is_that_of_the_problem_unless_it_is_given",
        "test_pictures_are_drawn",
        "test_the_answer_says_what_it_gains_over_the_plan_and_over_the_best_rule",
    ],
    "tests/pipeplan/test_cli_simulate_memory.py": [
        "test_gpipe_needs_more_than_there_is[graph-pipeline]",
        "test_gpipe_needs_more_than_there_is[placement]",
    ],
    "tests/pipeplan/test_cli_zero_and_gpus.py": [
        "test_a_result_says_its_stage_and_is_verified_with_it",
        "test_graph_pipelines_keep_their_own_micro_batch",
        "test_least_memory_is_asked_with_zero",
    ],
    "tests/pipeplan/test_every_kind_and_command.py": [
        "test_a_command_answers_or_refuses[compare-chain]",
        "test_a_command_answers_or_refuses[compare-graph-pipeline]",
        "test_a_command_answers_or_refuses[compare-staging]",
    ],
    "tests/pipeplan/test_ten_lines.py": [
        "test_a_plan_is_drawn[golden-4-png]",
        "test_a_plan_is_drawn[golden-4-svg]",
        "test_a_plan_is_drawn[tiny-chain-png]",
        "test_a_plan_is_drawn[tiny-graph-png]",
        "test_a_plan_is_drawn[tiny-graph-svg]",
        "test_a_plan_is_drawn[tiny-levels-png]",
        "test_a_plan_is_drawn[tiny-levels-svg]",
        "test_a_plan_is_drawn[tiny-stages-png]",
        "test_a_plan_is_drawn[tiny-stages-svg]",
        "test_a_plan_is_drawn[tiny-training-png]",
        "test_a_plan_is_drawn[tiny-training-svg]",
        "test_a_plan_is_drawn[v-shape-4-png]",
        "test_a_plan_is_drawn[v-shape-4-svg]",
        "test_a_result_shows_what_the_command_prints[tiny-graph]",
        "test_methods_are_compared",
    ],
    "tests/planners/backends/test_conformance.py": [
        "test_a_busy_worker_is_not_waited_for[cp-sat]",
        "test_a_busy_worker_is_not_waited_for[scip]",
        "test_a_killed_solver_costs_neither_the_incumbent_nor_the_next_task[cp-sat]",
        "test_a_killed_solver_costs_neither_the_incumbent_nor_the_next_task[scip]",
        "test_a_memory_limit_stops[cp-sat]",
        "test_a_memory_limit_stops[highs]",
        "test_a_time_limit_keeps_what_was_found[cp-sat]",
        "test_a_time_limit_keeps_what_was_found[scip]",
        "test_a_time_limit_without_any_solution[highs]",
        "test_a_time_limit_without_any_solution[scip]",
        "test_an_accepted_start_is_the_first_incumbent[highs]",
        "test_an_accepted_start_is_the_first_incumbent[scip]",
        "test_kill_ends_a_job_at_once[cp-sat]",
    ],
    "tests/planners/backends/test_matrix.py": [
        "test_a_contradiction_without_variables_is_written[model.mps]",
        "test_a_maximisation_is_marked_in_the_file[model.mps-*]",
        "test_an_exported_file_has_the_same_columns[model.lp]",
        "test_an_exported_file_has_the_same_optimum[model.mps]",
    ],
    "tests/planners/backends/test_workers.py": [
        "test_a_worker_that_does_not_stop_is_killed",
        "test_ctrl_c_returns_the_incumbent[scip]",
    ],
    "tests/planners/chain/test_chain_baselines.py": [
        "test_no_baseline_beats_the_optimum[0.5]",
    ],
    "tests/planners/chain/test_exact_beaumont.py": [
        "test_a_search_starts_from_the_plan_that_it_is_given",
        "test_periods_that_only_overrun_slots_reach_are_refuted",
    ],
    "tests/planners/exact/test_float_proofs.py": [
        "test_false_optima_of_the_past[presolve-none-scip]",
    ],
    "tests/planners/exact/test_placements_agree.py": [
        "test_float_solvers_do_not_see_some_bytes_and_are_put_right[17-stages-scip]",
    ],
    "tests/planners/exact/test_solver_claims.py": [
        "test_what_rounding_explains_is_no_contradiction[levels]",
        "test_what_rounding_explains_is_no_contradiction[placement]",
    ],
    "tests/planners/graph_pipeline/test_graphpipe_bounds.py": [
        "test_a_gap_that_is_open_is_not_called_proven",
        "test_where_stages_may_have_several_devices_it_is_near[7]",
    ],
    "tests/planners/graph_pipeline/test_graphpipe_planners.py": [
        "test_case_study_with_the_join_in_a_stage_is_five_deep",
        "test_more_branches_gain_more[None]",
    ],
    "tests/planners/graph_pipeline/test_shortest_iteration.py": [
        "test_alike_branches_take_places_in_turn[3-2-4]",
        "test_alike_branches_take_places_in_turn[4-1-4]",
        "test_the_formulation_asks_the_program_by_itself",
    ],
    "tests/planners/memory/test_smallest_memory.py": [
        "test_a_training_has_its_least_memory_to_the_byte[tiny-training]",
    ],
    "tests/planners/placement/device_sets/test_device_sets.py": [
        "test_every_set_is_one_path_and_pays_what_it_cuts",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[0-0]",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[0-1]",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[1-0]",
    ],
    "tests/planners/placement/dp/test_dp_extensions.py": [
        "test_costs_that_mean_forbidden[levels-max-load]",
        "test_equals_the_best_of_all_plans[levels]",
        "test_equals_the_best_of_all_plans[replicated]",
        "test_equals_the_best_of_all_plans[types]",
        "test_the_pruned_program_does_too[replicated]",
    ],
    "tests/planners/placement/heuristics/test_heuristics.py": [
        "test_how_far_from_the_best_they_are_on_average[lns-any]",
        "test_how_far_from_the_best_they_are_on_average[lns-contiguous]",
        "test_how_far_from_the_best_they_are_on_average[local-search-any]",
        "test_how_far_from_the_best_they_are_on_average[local-search-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[lns-gpipe-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[lns-max-load-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[partition-gpipe-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[partition-max-load-contiguous]",
    ],
    "tests/planners/run/test_claims.py": [
        "test_nothing_is_said_of_results_that_nobody_touched[case-study {'planner': 'graphpipe'}]",
    ],
    "tests/planners/run/test_proof_check.py": [
        "test_who_confirms_whom[golden-4 {'formulation': 'cp-beaumont', 'options': {'batches_per_period': 2}}]",
    ],
    "tests/planners/run/test_scope.py": [
        "test_every_bound_and_every_proof_has_a_scope[ilp-beaumont]",
        "test_every_bound_and_every_proof_has_a_scope[list-schedule]",
    ],
    "tests/planners/run/test_solver_death.py": [
        "test_a_solver_that_dies_late_leaves_time_for_a_heuristic",
    ],
    "tests/planners/run/test_warm_up.py": [
        "test_a_small_problem_is_planned_without_machine_code[bert-large-stages]",
        "test_a_small_problem_is_planned_without_machine_code[gpt2-medium-stages]",
    ],
    "tests/planners/run/test_why_none.py": [
        "test_every_exact_method_says_what_would_be_enough[ilp-beaumont]",
    ],
    "tests/planners/schedule/test_exact_schedule.py": [
        "test_a_result_names_a_solver_only_where_one_was_asked",
    ],
    "tests/planners/schedule/test_greedy.py": [
        "test_between_the_memory_of_both_rules_it_is_near_the_optimum[16-64-times0-1-48-2035]",
        "test_between_the_memory_of_both_rules_it_is_near_the_optimum[8-32-times3-2-28-1012]",
        "test_it_is_near_the_published_heuristic[4-12-times0-0-8-201]",
        "test_it_is_near_the_published_heuristic[4-12-times1-0-10-193]",
        "test_it_is_near_the_published_heuristic[4-12-times2-0-11-193]",
        "test_it_is_near_the_published_heuristic[4-12-times3-0-12-188]",
        "test_it_is_near_the_published_heuristic[4-12-times4-0-14-183]",
        "test_it_is_near_the_published_heuristic[4-12-times5-0-16-183]",
    ],
    "tests/planners/schedule/test_list_schedule.py": [
        "test_many_micro_batches_in_little_memory_begin_with_a_rule_that_keeps_the_devices_busy",
        "test_no_rule_ever_gets_stuck_where_one_micro_batch_fits[0]",
        "test_published_pipelines_within_two_percent_of_their_optimum[4-12-8-201]",
    ],
    "tests/planners/staging/test_degree_table.py": [
        "test_numbers_and_pictures_in_files",
        "test_places_without_a_plan_stay_empty",
        "test_the_picture_gives_times_as_people_read_them",
    ],
    "tests/planners/staging/test_dp_piper.py": [
        "test_equals_brute_force[0-paper]",
        "test_the_plan_of_the_hand_check",
    ],
    "tests/planners/staging/test_equal_types.py": [
        "test_a_plan_for_mixed_gpus_is_compared_with_the_even_split",
    ],
    "tests/planners/staging/test_extended_staging.py": [
        "test_flushes_change_plans_in_some_examples_and_not_in_others",
        "test_many_micro_batches_hide_the_flush[resnet50-stages]",
    ],
    "tests/planners/staging/test_leveled_solve.py": [
        "test_a_search_that_is_out_of_time_leaves_a_plan",
    ],
    "tests/planners/staging/test_nasty_stagings.py": [
        "test_compiled_loops_say_the_same",
        "test_dp_piper_in_all_units",
        "test_flushes_in_all_units",
        "test_levels_in_all_units[0-crude]",
        "test_levels_in_all_units[0-precise]",
    ],
    "tests/planners/staging/test_packaged_stagings.py": [
        "test_gpt2_medium_needs_recomputation_and_tensor_parallelism[recomputation]",
        "test_gpt2_medium_needs_recomputation_and_tensor_parallelism[tensor parallelism]",
        "test_what_is_known_of_stagings_is_found_by_another_program[resnet50-stages]",
    ],
    "tests/planners/staging/test_piper_pipedream.py": [
        "test_on_a_path_it_is_the_optimum_without_memory_and_tensor_parallelism",
    ],
    "tests/planners/staging/test_uniform.py": [
        "test_what_it_plans_goes_to_megatron",
    ],
    "tests/planners/training/test_bounds.py": [
        "test_no_layout_that_fits_is_faster_than_the_bound[258]",
        "test_the_bound_knows_time_and_memory",
    ],
    "tests/planners/training/test_calculon_space.py": [
        "test_the_search_finds_what_enumeration_of_calculons_space_finds",
    ],
    "tests/planners/training/test_measured.py": [
        "test_every_run_is_left_out_once_and_its_error_is_the_tolerance",
        "test_the_fit_explains_what_the_defaults_do_not",
    ],
    "tests/planners/training/test_measured_runs.py": [
        "test_measured_times_are_met[a100_2205_05198.json-fitted0-a100-0.0365-None-0.0887]",
    ],
    "tests/planners/training/test_search.py": [
        "test_a_limit_met_to_the_byte_is_decided_by_the_referee[248]",
        "test_the_best_configuration_is_that_of_enumeration[0]",
        "test_the_best_of_what_is_asked_for_is_that_of_enumeration",
        "test_the_list_has_every_choice_that_may_be_the_fastest",
    ],
    "tests/test_docs.py": [
        "test_the_problem_on_the_page_on_schedules_is_one",
        "test_the_quick_part_of_piper_tells_methods_apart_without_published_inputs",
    ],
    "tests/test_golden.py": [
        "test_a_result_is_what_it_was[chain-ilp-allocation]",
        "test_a_result_is_what_it_was[graph-pipeline-iteration]",
        "test_a_result_is_what_it_was[graph-pipeline-mixed]",
        "test_a_result_is_what_it_was[graph-pipeline-spp-pipedream]",
        "test_a_result_is_what_it_was[latency-cpu]",
        "test_a_result_is_what_it_was[latency-greedy]",
        "test_a_result_is_what_it_was[latency-partition]",
        "test_a_result_is_what_it_was[latency-plain]",
        "test_a_result_is_what_it_was[latency-strong-highs]",
        "test_a_result_is_what_it_was[latency-strong]",
        "test_a_result_is_what_it_was[schedule-zb-greedy]",
        "test_a_result_is_what_it_was[staging-default]",
        "test_a_result_is_what_it_was[staging-dp-reference]",
        "test_a_result_is_what_it_was[staging-levels-given]",
        "test_a_result_is_what_it_was[staging-mip-reference]",
        "test_a_result_is_what_it_was[staging-uniform]",
        "test_a_result_is_what_it_was[training-experts]",
        "test_another_command_answers_what_it_did[pareto-chain]",
    ],
    "tests/test_models_alone.py": [
        "test_a_model_alone_holds_the_best_plan[some-schedule: ilp-zero-bubble highs objective=makespan]",
        "test_a_model_alone_holds_the_best_plan[some-schedule: ilp-zero-bubble highs objective=span]",
    ],
    "tests/test_overrun.py": [
        "test_one_run",
    ],
    "tests/test_pages.py": [
        "test_a_page_runs_as_it_is_written[docs/ten-lines.md]",
        "test_the_printed_value_of_the_readme_is_beaten",
    ],
    "tests/test_proofs.py": [
        "test_enumerations_follow_the_units[levels]",
        "test_enumerations_follow_the_units[schedule]",
        "test_enumerations_follow_the_units[training]",
        "test_more_of_anything_never_hurts[14]",
        "test_more_of_anything_never_hurts[26]",
        "test_the_same_seed_is_the_same_problem_which_a_file_can_hold[schedule]",
        "test_the_same_seed_is_the_same_problem_which_a_file_can_hold[training]",
        "test_units_do_not_matter[21]",
        "test_units_do_not_matter[72]",
    ],
    "tests/test_toy_kind.py": [
        "test_a_new_kind_is_solved_verified_shown_reported_and_compared",
    ],
    "tests/workloads/test_dp_published.py": [
        "test_the_papers_optimum_to_all_digits[layer/inceptionv3_inference]",
        "test_the_papers_optimum_to_all_digits[operator/bert_l-3_training]",
        "test_the_papers_optimum_to_all_digits[operator/bert_l-6_inference]",
    ],
    "tests/workloads/test_latency_published.py": [
        "test_more_subgraphs_per_device_do_not_help_bert_3[2]",
    ],
    "tests/workloads/test_piper_claims.py": [
        "test_one_gibibyte_needs_tensor_parallelism_and_recomputation",
        "test_table_1_of_resnet50[8-16-58.5656-108.886]",
        "test_table_1_of_resnet50[8-4-74.2513-None]",
        "test_table_1_of_resnet50[8-8-63.4363-164.159]",
        "test_without_data_parallelism_the_broadcast_of_the_mask_is_a_floor",
    ],
    "tests/workloads/test_tarnawski_throughput.py": [
        "test_contiguous_optimum_to_all_printed_digits[layer/resnet50_inference]",
        "test_cp_sat_proves_the_optimum_without_any_start[layer/gnmt_inference]",
    ],
}
"""Run with `--sweeps`, as `.ci/run` does."""

LONGEST = {
    "tests/formulations/beaumont/test_given_allocation.py": [
        "test_theorem_3_holds_with_the_sizes_corrected[corrected-no-split-exact-beaumont]",
        "test_theorem_3_holds_with_the_sizes_corrected[corrected-no-split-ilp-beaumont-highs]",
    ],
    "tests/formulations/beaumont/test_known_periods.py": [
        "test_an_overrun_slot_is_reported_and_can_be_forbidden[cp-beaumont-cp-sat]",
    ],
    "tests/formulations/graphpipe/test_more_in_flight.py": [
        "test_transfers_are_hidden_by_what_is_held_beyond_the_rule[mmt-8]",
    ],
    "tests/formulations/piper/test_near_stages.py": [
        "test_compiled_loops_say_what_plain_ones_say[0]",
    ],
    "tests/formulations/tarnawski_latency/test_cells.py": [
        "test_larger_rows_are_nearly_solved_without_a_search[blocks]",
        "test_no_plan_is_better_than_the_bounds_many_times",
    ],
    "tests/formulations/zero_bubble/test_finite_models.py": [
        "test_models_agree_with_enumeration[2-method1]",
    ],
    "tests/formulations/zero_bubble/test_standstills.py": [
        "test_plans_are_the_same_by_either_clock[5]",
        "test_the_shortest_period_is_that_of_enumeration[5]",
    ],
    "tests/pipeplan/models/export/test_real_parsers.py": [
        "test_the_script_trains_with_the_loss_inside_or_outside[functions1]",
    ],
    "tests/pipeplan/models/run/test_transformers.py": [
        "test_the_gradients_are_those_of_one_process[t5]",
        "test_the_gradients_are_those_of_one_process[whisper]",
    ],
    "tests/pipeplan/show/test_picture_legibility.py": [
        "test_everything_can_be_read[chain]",
        "test_everything_can_be_read[graph pipeline]",
        "test_everything_can_be_read[schedule]",
    ],
    "tests/pipeplan/show/test_readable_units.py": [
        "test_units_suit_eyes_wherever_a_packaged_instance_is_shown[schedule-zero-bubble-32x16]",
    ],
    "tests/pipeplan/studies/test_pareto.py": [
        "test_with_more_memory_no_method_is_worse_and_exact_never_worse_than_any[2]",
    ],
    "tests/pipeplan/studies/test_schedule_comparison.py": [
        "test_every_kind_has_a_table[vgg16-training]",
    ],
    "tests/pipeplan/test_every_kind_and_command.py": [
        "test_a_command_answers_or_refuses[compare-placement]",
        "test_a_command_answers_or_refuses[compare-schedule]",
        "test_a_command_answers_or_refuses[compare-training]",
    ],
    "tests/planners/backends/test_conformance.py": [
        "test_offers_reach_a_running_solver_or_are_declined[highs]",
    ],
    "tests/planners/exact/test_placements_agree.py": [
        "test_known_values[CPUs alone-plain]",
        "test_no_heuristic_offers_what_exceeds_a_memory_or_a_bound_above_its_plan[0 mod 3-device-sets]",
    ],
    "tests/planners/graph_pipeline/test_best_known_times.py": [
        "test_no_planner_beats_the_best_known_time[dlrm-8-graphpipe-iteration]",
        "test_no_planner_beats_the_best_known_time[mmt-8-graphpipe-iteration]",
    ],
    "tests/planners/graph_pipeline/test_graphpipe_planners.py": [
        "test_a_choice_of_depths_never_costs_anything[dlrm-graphpipe]",
        "test_ablation_is_between_the_row_and_the_graph[dlrm]",
    ],
    "tests/planners/graph_pipeline/test_nasty_graph_pipelines.py": [
        "test_graphpipe_in_all_units[0]",
        "test_graphpipe_in_all_units[2]",
    ],
    "tests/planners/graph_pipeline/test_shortest_iteration.py": [
        "test_more_devices[mmt-16]",
        "test_packaged_networks_are_within_two_percent[dlrm-8-0.05764528-0.0]",
    ],
    "tests/planners/memory/test_smallest_memory.py": [
        "test_a_training_has_its_least_memory_to_the_byte[tiny-experts-training]",
        "test_more_options_never_cost_the_answer",
    ],
    "tests/planners/placement/heuristics/test_heuristics.py": [
        "test_many_devices_cost_nothing[lns]",
    ],
    "tests/planners/placement/heuristics/test_heuristics_published.py": [
        "test_lns_reaches_the_best_known_values[tarnawski/throughput/layer/gnmt_inference]",
        "test_lns_reaches_the_best_known_values[tarnawski/throughput/operator/bert_l-3_training]",
        "test_lns_reaches_the_best_known_values[tarnawski/throughput/operator/bert_l-6_inference]",
    ],
    "tests/planners/schedule/test_exact_schedule.py": [
        "test_the_table_of_zero_bubble_pipelines[4-12-times3-0-12-188]",
    ],
    "tests/planners/staging/test_dp_piper.py": [
        "test_every_published_value_of_the_program_and_its_restrictions[bert32]",
        "test_every_published_value_of_the_program_and_its_restrictions[resnet50]",
    ],
    "tests/planners/staging/test_nasty_stagings.py": [
        "test_levels_in_all_units[2-crude]",
        "test_levels_in_all_units[2-precise]",
    ],
    "tests/planners/test_plugin_mistakes.py": [
        "test_a_mistake_of_any_function_is_the_plug_ins[builder-a bug-compare]",
        "test_a_mistake_of_any_function_is_the_plug_ins[decode-a bug-compare]",
        "test_a_mistake_of_any_function_is_the_plug_ins[exclude-a bug-compare]",
    ],
    "tests/planners/training/test_search.py": [
        "test_the_best_configuration_is_that_of_enumeration[4]",
        "test_the_best_configuration_is_that_of_enumeration[8]",
        "test_the_best_configuration_is_that_of_enumeration_many_times[range(100, 110)]",
        "test_the_best_configuration_is_that_of_enumeration_many_times[range(110, 120)]",
        "test_the_best_of_what_is_asked_for_is_that_of_enumeration_many_times[range(120, 140)]",
        "test_the_best_of_what_is_asked_for_is_that_of_enumeration_many_times[range(140, 160)]",
        "test_the_list_has_every_choice_that_may_be_the_fastest[0-0.03]",
        "test_the_list_has_every_choice_that_may_be_the_fastest[0-0.0]",
    ],
    "tests/test_golden.py": [
        "test_a_result_is_what_it_was[graph-pipeline-shortest]",
        "test_a_result_is_what_it_was[staging-dp-flush]",
    ],
    "tests/test_lessons.py": [
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[11.6]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[2.1]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[3.1]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[3.4]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[3.5]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[3.7]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[4.1]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[6.1]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[6.4]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[7.1]",
        "test_an_exercise_takes_its_solution_and_refuses_wrong_answers[9.1]",
    ],
    "tests/test_models_alone.py": [
        "test_a_model_alone_holds_the_best_plan[many-schedule: ilp-zero-bubble highs objective=makespan]",
        "test_a_model_alone_holds_the_best_plan[many-schedule: ilp-zero-bubble highs objective=span]",
    ],
    "tests/test_pages.py": [
        "test_a_page_runs_as_it_is_written[docs/schedules.md]",
        "test_a_page_runs_as_it_is_written[docs/tutorial.md]",
    ],
    "tests/test_proofs.py": [
        "test_many_proofs_agree_with_enumeration[schedule: ilp-zero-bubble cp-sat objective=span-range(8, 11)]",
        "test_names_and_their_order_do_not_matter_to_many[schedule: ilp-zero-bubble cp-sat objective=span]",
    ],
    "tests/workloads/test_latency_published.py": [
        "test_layer_graphs_of_convolutional_networks_are_nearly_solved_without_a_search[inceptionv3_inference-0.5]",
        "test_layer_graphs_of_convolutional_networks_are_nearly_solved_without_a_search[inceptionv3_inference-1.6]",
        "test_layer_graphs_of_convolutional_networks_are_nearly_solved_without_a_search[inceptionv3_inference-3.0]",
    ],
    "tests/workloads/test_piper_claims.py": [
        "test_piper_is_best_in_every_cell[1]",
        "test_piper_is_best_in_every_cell[80]",
        "test_piper_is_best_in_every_cell[8]",
        "test_rows_where_exact_knapsacks_are_better[resnet-resnet50]",
        "test_table_1_of_resnet50[128-1-19.8685-None]",
        "test_table_1_of_resnet50[128-1.5-7.02514-None]",
        "test_table_1_of_resnet50[128-16-3.63534-6.80536]",
        "test_table_1_of_resnet50[128-2-5.50138-None]",
        "test_table_1_of_resnet50[128-4-4.29729-None]",
        "test_table_1_of_resnet50[128-8-3.90292-10.26]",
        "test_table_1_of_resnet50[64-16-7.27067-13.6107]",
    ],
    "tests/workloads/test_tarnawski_throughput.py": [
        "test_cp_sat_proves_the_optimum_without_any_start[operator/bert_l-6_inference]",
        "test_non_contiguous_value_within_one_percent[layer/inceptionv3_inference]",
        "test_non_contiguous_value_within_one_percent[operator/bert_l-6_inference]",
    ],
}
"""Take some three seconds or more each, and a quicker case of the same test, or another test of the same page,
runs without them: run with `--slow`, before an issue is resolved."""
