"""Tests that take as long as a hundred others, while quicker ones ask the same in a smaller way, so that a
newcomer's run is short.

By file: names of tests, whole ones or single cases of them. A name that no test has is an error."""

LONGER = {
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
    "tests/formulations/graphpipe/test_cp_graphpipe_iteration.py": ["test_stages_of_one_size_alone"],
    "tests/formulations/piper/test_near_stages.py": [
        "test_where_few_stages_may_be_listed_limits_rise_step_by_step[12]"
    ],
    "tests/formulations/piper/test_piper_columns.py": [
        "test_published_graphs_have_the_published_numbers_of_sets[resnet-242-28729]"
    ],
    "tests/formulations/tarnawski_latency/test_cells.py": [
        "test_a_time_limit_ends_the_division_of_a_large_cell[True]",
        "test_machine_code_finds_the_same",
        "test_what_a_time_limit_has_ended_goes_on_where_it_stopped",
    ],
    "tests/formulations/test_decimal_rows.py": [
        "test_rows_in_decimals_are_exact_or_called_rounded[ilp-beaumont]",
        "test_rows_in_decimals_are_exact_or_called_rounded[ip-tarnawski-latency]",
        "test_rows_in_decimals_are_exact_or_called_rounded[mip-piper]",
    ],
    "tests/formulations/zero_bubble/test_finite_bounds.py": [
        "test_filling_and_draining_cost_time_together[16-64-times1-1-32-2160]"
    ],
    "tests/formulations/zero_bubble/test_finite_models.py": [
        "test_a_limit_is_kept_to_the_last_of_twenty_digits[0-method1]",
        "test_a_limit_is_kept_to_the_last_of_twenty_digits[inf-method1]",
    ],
    "tests/formulations/zero_bubble/test_finite_orders.py": [
        "test_times_of_given_orders_are_never_worse[makespan-0]"
    ],
    "tests/formulations/zero_bubble/test_periodic.py": [
        "test_periods_of_shapes[nn-4]",
        "test_plenty_of_memory_leaves_the_load[nn]",
    ],
    "tests/instances/networks/profile/test_malformed_tables.py": [
        "test_one_sentence_says_where_and_what_to_do[header alone]",
        "test_one_sentence_says_where_and_what_to_do[no Excel file]",
    ],
    "tests/instances/placement/test_contiguity.py": ["test_long_chains_need_no_recursion"],
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
    "tests/planners/backends/test_conformance.py": [
        "test_a_busy_worker_is_not_waited_for[cp-sat]",
        "test_a_busy_worker_is_not_waited_for[scip]",
        "test_a_killed_solver_costs_neither_the_incumbent_nor_the_next_task[scip]",
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
    "tests/planners/chain/test_exact_beaumont.py": [
        "test_a_search_starts_from_the_plan_that_it_is_given",
        "test_periods_that_only_overrun_slots_reach_are_refuted",
    ],
    "tests/planners/chain/test_layer_sets.py": [
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-1-at once]"
    ],
    "tests/planners/exact/test_float_proofs.py": ["test_false_optima_of_the_past[presolve-none-scip]"],
    "tests/planners/exact/test_placements_agree.py": [
        "test_float_solvers_do_not_see_some_bytes_and_are_put_right[17-stages-scip]"
    ],
    "tests/planners/exact/test_solver_claims.py": [
        "test_what_rounding_explains_is_no_contradiction[levels]",
        "test_what_rounding_explains_is_no_contradiction[placement]",
    ],
    "tests/planners/graph_pipeline/test_graphpipe_bounds.py": [
        "test_where_stages_may_have_several_devices_it_is_near[7]"
    ],
    "tests/planners/graph_pipeline/test_shortest_iteration.py": [
        "test_alike_branches_take_places_in_turn[3-2-4]",
        "test_alike_branches_take_places_in_turn[4-1-4]",
    ],
    "tests/planners/memory/test_smallest_memory.py": [
        "test_a_training_has_its_least_memory_to_the_byte[tiny-training]"
    ],
    "tests/planners/placement/device_sets/test_device_sets.py": [
        "test_every_set_is_one_path_and_pays_what_it_cuts",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[0-0]",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[0-1]",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[1-0]",
    ],
    "tests/planners/placement/dp/test_dp_extensions.py": [
        "test_equals_the_best_of_all_plans[replicated]",
        "test_the_pruned_program_does_too[replicated]",
    ],
    "tests/planners/placement/heuristics/test_heuristics.py": [
        "test_how_far_from_the_best_they_are_on_average[lns-any]",
        "test_how_far_from_the_best_they_are_on_average[local-search-any]",
        "test_how_far_from_the_best_they_are_on_average[local-search-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[lns-gpipe-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[lns-max-load-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[partition-gpipe-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[partition-max-load-contiguous]",
    ],
    "tests/planners/run/test_claims.py": [
        "test_nothing_is_said_of_results_that_nobody_touched[case-study {'planner': 'graphpipe'}]"
    ],
    "tests/planners/run/test_proof_check.py": [
        "test_who_confirms_whom[golden-4 {'formulation': 'cp-beaumont', 'options': {'batches_per_period': 2}}]"
    ],
    "tests/planners/run/test_scope.py": ["test_every_bound_and_every_proof_has_a_scope[ilp-beaumont]"],
    "tests/planners/run/test_warm_up.py": [
        "test_a_small_problem_is_planned_without_machine_code[bert-large-stages]",
        "test_a_small_problem_is_planned_without_machine_code[gpt2-medium-stages]",
    ],
    "tests/planners/run/test_why_none.py": ["test_every_exact_method_says_what_would_be_enough[ilp-beaumont]"],
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
    "tests/planners/staging/test_equal_types.py": ["test_a_plan_for_mixed_gpus_is_compared_with_the_even_split"],
    "tests/planners/staging/test_extended_staging.py": ["test_many_micro_batches_hide_the_flush[resnet50-stages]"],
    "tests/planners/staging/test_leveled_solve.py": ["test_a_search_that_is_out_of_time_leaves_a_plan"],
    "tests/planners/staging/test_nasty_stagings.py": [
        "test_dp_piper_in_all_units",
        "test_flushes_in_all_units",
        "test_levels_in_all_units[0-crude]",
        "test_levels_in_all_units[0-precise]",
    ],
    "tests/planners/staging/test_packaged_stagings.py": [
        "test_gpt2_medium_needs_recomputation_and_tensor_parallelism[tensor parallelism]",
        "test_what_is_known_of_stagings_is_found_by_another_program[resnet50-stages]",
    ],
    "tests/planners/staging/test_piper_pipedream.py": [
        "test_on_a_path_it_is_the_optimum_without_memory_and_tensor_parallelism"
    ],
    "tests/planners/staging/test_uniform.py": ["test_what_it_plans_goes_to_megatron"],
    "tests/planners/training/test_bounds.py": [
        "test_no_layout_that_fits_is_faster_than_the_bound[258]",
        "test_the_bound_knows_time_and_memory",
    ],
    "tests/planners/training/test_calculon_space.py": [
        "test_the_search_finds_what_enumeration_of_calculons_space_finds"
    ],
    "tests/planners/training/test_measured.py": ["test_every_run_is_left_out_once_and_its_error_is_the_tolerance"],
    "tests/planners/training/test_measured_runs.py": [
        "test_measured_times_are_met[a100_2205_05198.json-fitted0-a100-0.0365-None-0.0887]"
    ],
    "tests/planners/training/test_search.py": [
        "test_the_best_configuration_is_that_of_enumeration[0]",
        "test_the_list_has_every_choice_that_may_be_the_fastest",
    ],
    "tests/workloads/test_dp_published.py": [
        "test_the_papers_optimum_to_all_digits[layer/inceptionv3_inference]",
        "test_the_papers_optimum_to_all_digits[operator/bert_l-3_training]",
        "test_the_papers_optimum_to_all_digits[operator/bert_l-6_inference]",
    ],
    "tests/workloads/test_latency_published.py": ["test_more_subgraphs_per_device_do_not_help_bert_3[2]"],
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
        "test_theorem_3_holds_with_the_sizes_corrected[corrected-no-split-ilp-beaumont-cp-sat]",
        "test_theorem_3_holds_with_the_sizes_corrected[corrected-no-split-ilp-beaumont-highs]",
    ],
    "tests/formulations/beaumont/test_known_periods.py": [
        "test_an_overrun_slot_is_reported_and_can_be_forbidden[cp-beaumont-cp-sat]"
    ],
    "tests/formulations/graphpipe/test_cp_graphpipe.py": [
        "test_nasty_numbers_in_all_units[0]",
        "test_nasty_numbers_in_all_units[2]",
    ],
    "tests/formulations/graphpipe/test_more_in_flight.py": [
        "test_transfers_are_hidden_by_what_is_held_beyond_the_rule",
        "test_transfers_are_hidden_by_what_is_held_beyond_the_rule[mmt-8]",
    ],
    "tests/formulations/piper/test_nasty_models.py": ["test_columns_in_all_units[0]"],
    "tests/formulations/piper/test_near_stages.py": ["test_compiled_loops_say_what_plain_ones_say[0]"],
    "tests/formulations/piper/test_piper_columns.py": [
        "test_bert_is_proven_within_a_thousandth_by_the_columns_alone[32-32-8-0.044554714003086096]",
        "test_bert_is_proven_within_a_thousandth_by_the_columns_alone[8-8-8-0.16585575000000002]",
    ],
    "tests/formulations/tarnawski_latency/test_cells.py": [
        "test_a_time_limit_ends_the_division_of_a_large_cell[False]",
        "test_larger_rows_are_nearly_solved_without_a_search[blocks]",
        "test_no_plan_is_better_than_the_bounds",
        "test_no_plan_is_better_than_the_bounds_many_times",
    ],
    "tests/formulations/test_decimal_rows.py": ["test_rows_in_decimals_are_exact_or_called_rounded[ip-tarnawski]"],
    "tests/formulations/zero_bubble/test_finite_bounds.py": ["test_filling_and_draining_cost_time_together"],
    "tests/formulations/zero_bubble/test_finite_models.py": [
        "test_a_start_is_an_incumbent_of_the_models",
        "test_models_agree_with_enumeration[0-method0]",
        "test_models_agree_with_enumeration[0-method1]",
        "test_models_agree_with_enumeration[1-method1]",
        "test_models_agree_with_enumeration[2-method0]",
        "test_models_agree_with_enumeration[2-method1]",
        "test_no_bound_exceeds_the_optimum[0]",
        "test_no_bound_exceeds_the_optimum[2]",
    ],
    "tests/formulations/zero_bubble/test_finite_orders.py": ["test_times_of_given_orders_are_never_worse"],
    "tests/formulations/zero_bubble/test_periodic.py": ["test_two_chains_on_eight_devices_with_six_units"],
    "tests/formulations/zero_bubble/test_standstills.py": [
        "test_most_problems_of_these_tests_have_a_standstill",
        "test_plans_are_the_same_by_either_clock[5]",
        "test_the_shortest_period_is_that_of_enumeration[5]",
    ],
    "tests/instances/graph_pipeline/test_series_parallel.py": ["test_deep_nesting_needs_no_recursion"],
    "tests/instances/placement/test_files.py": ["test_a_round_trip_keeps_everything"],
    "tests/instances/placement/test_grouped_plans.py": ["test_a_plan_is_what_its_json_says[1]"],
    "tests/instances/placement/test_problem.py": ["test_a_long_chain_is_no_trouble"],
    "tests/instances/placement/test_referee_properties.py": [
        "test_a_colour_on_two_devices_breaks_colocation",
        "test_a_way_out_and_back_breaks_the_contiguity_of_a_device",
        "test_an_unsupported_node_on_an_accelerator_breaks_support",
        "test_given_pieces_are_kept",
        "test_shrunken_memory_breaks_memory",
        "test_verdicts_near_valid_plans",
    ],
    "tests/instances/staging/test_staged_referee.py": [
        "test_a_published_plan_one_batch_of_memory_short_is_caught",
        "test_every_published_plan_is_recomputed",
    ],
    "tests/instances/test_schemas.py": ["test_what_we_write_passes"],
    "tests/instances/training/test_seconds.py": ["test_published_times_on_a100"],
    "tests/instances/training/test_steady.py": ["test_counted_passes_take_and_hold_what_listed_ones_do_many_times"],
    "tests/planners/backends/test_conformance.py": [
        "test_a_killed_solver_costs_neither_the_incumbent_nor_the_next_task[cp-sat]",
        "test_a_memory_limit_stops[cp-sat]",
        "test_kill_ends_a_job_at_once",
        "test_offers_reach_a_running_solver_or_are_declined[highs]",
        "test_progress_comes_as_records[highs]",
    ],
    "tests/planners/backends/test_matrix.py": ["test_an_exported_file_has_the_same_optimum"],
    "tests/planners/chain/test_chain_baselines.py": ["test_no_baseline_beats_the_optimum[0.5]"],
    "tests/planners/exact/test_placements_agree.py": [
        "test_known_values[CPUs alone-plain]",
        "test_no_heuristic_offers_what_exceeds_a_memory_or_a_bound_above_its_plan",
        "test_no_heuristic_offers_what_exceeds_a_memory_or_a_bound_above_its_plan[0 mod 3-device-sets]",
    ],
    "tests/planners/graph_pipeline/test_best_known_times.py": [
        "test_no_planner_beats_the_best_known_time",
        "test_no_planner_beats_the_best_known_time[dlrm-8-graphpipe-iteration]",
        "test_no_planner_beats_the_best_known_time[mmt-8-graphpipe-iteration]",
    ],
    "tests/planners/graph_pipeline/test_graphpipe_bounds.py": [
        "test_a_gap_that_is_open_is_not_called_proven",
        "test_a_wider_choice_never_raises_it",
    ],
    "tests/planners/graph_pipeline/test_graphpipe_planners.py": [
        "test_a_choice_of_depths_never_costs_anything[dlrm-graphpipe]",
        "test_a_choice_of_depths_never_costs_anything[mmt-graphpipe]",
        "test_ablation_is_between_the_row_and_the_graph[dlrm]",
        "test_ablation_is_between_the_row_and_the_graph[mmt]",
        "test_case_study_with_the_join_in_a_stage_is_five_deep",
        "test_more_branches_gain_more[None]",
        "test_more_devices_gain_more[candle_uno]",
    ],
    "tests/planners/graph_pipeline/test_nasty_graph_pipelines.py": [
        "test_compiled_loops_say_the_same",
        "test_graphpipe_in_all_units",
        "test_graphpipe_in_all_units[0]",
        "test_graphpipe_in_all_units[2]",
        "test_other_planners_keep_to_the_memory[graphpipe-parallel]",
        "test_other_planners_keep_to_the_memory[piper-downsets]",
    ],
    "tests/planners/graph_pipeline/test_shortest_iteration.py": [
        "test_a_check_that_would_be_too_large_costs_no_plan",
        "test_more_devices",
        "test_more_devices[mmt-16]",
        "test_packaged_networks_are_within_two_percent",
        "test_packaged_networks_are_within_two_percent[dlrm-8-0.05764528-0.0]",
        "test_the_bound_is_nearly_always_the_optimum",
        "test_the_formulation_asks_the_program_by_itself",
        "test_with_groups_of_passes_transfers_may_be_hidden",
    ],
    "tests/planners/memory/test_smallest_memory.py": [
        "test_a_training_has_its_least_memory_to_the_byte",
        "test_a_training_has_its_least_memory_to_the_byte[tiny-experts-training]",
        "test_more_options_never_cost_the_answer",
        "test_the_same_of_many_problems",
    ],
    "tests/planners/placement/device_sets/test_device_sets.py": ["test_the_integer_program_uses_it"],
    "tests/planners/placement/dp/test_dp_extensions.py": [
        "test_costs_that_mean_forbidden[levels-max-load]",
        "test_costs_that_mean_forbidden[types-gpipe]",
        "test_costs_that_mean_forbidden[types-max-load]",
        "test_costs_that_mean_forbidden_in_the_pruned_program[types]",
        "test_equals_the_best_of_all_plans[levels]",
        "test_equals_the_best_of_all_plans[types]",
        "test_the_pruned_program_does_too[types]",
    ],
    "tests/planners/placement/dp/test_dp_planner.py": ["test_in_at_least_half_of_these_problems_a_limit_decides"],
    "tests/planners/placement/heuristics/test_heuristics.py": [
        "test_how_far_from_the_best_they_are_on_average[lns-contiguous]",
        "test_many_devices_cost_nothing[greedy]",
        "test_many_devices_cost_nothing[lns]",
        "test_many_devices_cost_nothing[one-device]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best",
    ],
    "tests/planners/placement/heuristics/test_heuristics_published.py": [
        "test_lns_reaches_the_best_known_values[tarnawski/throughput/layer/gnmt_inference]",
        "test_lns_reaches_the_best_known_values[tarnawski/throughput/operator/bert_l-3_inference]",
        "test_lns_reaches_the_best_known_values[tarnawski/throughput/operator/bert_l-3_training]",
        "test_lns_reaches_the_best_known_values[tarnawski/throughput/operator/bert_l-6_inference]",
    ],
    "tests/planners/run/test_claims.py": ["test_nothing_is_said_of_results_that_nobody_touched"],
    "tests/planners/run/test_scope.py": ["test_every_bound_and_every_proof_has_a_scope[list-schedule]"],
    "tests/planners/run/test_solver_death.py": [
        "test_a_search_that_asks_solvers_itself_keeps_its_best_plan",
        "test_a_solver_that_dies_late_leaves_time_for_a_heuristic",
        "test_the_death_of_solvers_leaves_the_plan_of_a_heuristic",
    ],
    "tests/planners/run/test_warm_up.py": ["test_a_cold_cache_costs_no_time_limit"],
    "tests/planners/schedule/test_exact_schedule.py": [
        "test_a_result_names_a_solver_only_where_one_was_asked",
        "test_the_table_of_zero_bubble_pipelines[4-12-times1-0-10-193]",
        "test_the_table_of_zero_bubble_pipelines[4-12-times2-0-11-193]",
        "test_the_table_of_zero_bubble_pipelines[4-12-times3-0-12-188]",
        "test_the_table_of_zero_bubble_pipelines[4-12-times4-0-14-183]",
        "test_the_table_of_zero_bubble_pipelines[4-12-times5-0-16-181]",
        "test_uneven_pipelines_are_proven_and_no_rule_is_better",
    ],
    "tests/planners/schedule/test_greedy.py": ["test_the_uneven_pipeline_is_scheduled_as_well_as_its_work_lets"],
    "tests/planners/schedule/test_list_schedule.py": [
        "test_devices_do_not_wait_for_each_others_memory",
        "test_each_plan_is_better_than_the_one_before",
        "test_many_micro_batches_in_little_memory_begin_with_a_rule_that_keeps_the_devices_busy",
        "test_measured_pipelines",
        "test_no_rule_ever_gets_stuck_where_one_micro_batch_fits[1]",
        "test_no_rule_ever_gets_stuck_where_one_micro_batch_fits[2]",
        "test_published_pipelines_within_two_percent_of_their_optimum",
        "test_the_same_seed_gives_the_same_plan",
    ],
    "tests/planners/staging/test_degree_table.py": [
        "test_compiled_loops_say_the_same",
        "test_every_entry_is_an_optimum_of_its_own[exact-paper]",
        "test_every_entry_is_an_optimum_of_its_own[exact-reference]",
        "test_every_entry_is_an_optimum_of_its_own[greedy-paper]",
    ],
    "tests/planners/staging/test_dp_piper.py": [
        "test_a_restriction_never_helps_and_keeps_its_word",
        "test_compiled_loops_say_the_same",
        "test_equals_brute_force",
        "test_every_published_value_of_the_program_and_its_restrictions[bert32]",
        "test_every_published_value_of_the_program_and_its_restrictions[resnet50]",
        "test_exact_knapsacks_are_never_worse_and_somewhere_better",
        "test_more_of_anything_never_hurts",
        "test_the_published_greedy_is_never_better_than_the_exact_knapsack[0]",
        "test_the_published_greedy_is_never_better_than_the_exact_knapsack[1]",
    ],
    "tests/planners/staging/test_extended_staging.py": [
        "test_flushes_change_plans_in_some_examples_and_not_in_others",
        "test_many_micro_batches_hide_the_flush",
    ],
    "tests/planners/staging/test_leveled_plans.py": ["test_bert32_on_two_servers_of_four"],
    "tests/planners/staging/test_nasty_stagings.py": [
        "test_compiled_loops_say_the_same",
        "test_devices_of_two_types_in_all_units[2]",
        "test_dp_piper_in_all_units[0]",
        "test_flushes_in_all_units[0]",
        "test_levels_in_all_units[2-crude]",
        "test_levels_in_all_units[2-precise]",
    ],
    "tests/planners/staging/test_packaged_stagings.py": [
        "test_gpt2_medium_needs_recomputation_and_tensor_parallelism[recomputation]"
    ],
    "tests/planners/test_either_way.py": [
        "test_long_and_short_turns_of_annealing_and_the_model_end_in_the_same_proof[1e-06-0.2]",
        "test_long_and_short_turns_of_annealing_and_the_model_end_in_the_same_proof[1e-06-1000000.0]",
    ],
    "tests/planners/test_interrupts.py": [
        "test_no_method_of_ours_has_a_false_bound_after_an_interrupt[schedule: exact-schedule objective=period]",
        "test_no_method_of_ours_has_a_false_bound_after_an_interrupt[training: exact-configuration memory_error=0.03]",
    ],
    "tests/planners/test_plugin_mistakes.py": [
        "test_a_mistake_of_any_function_is_the_plug_ins",
        "test_a_mistake_of_any_function_is_the_plug_ins[builder-a bug-compare]",
        "test_a_mistake_of_any_function_is_the_plug_ins[decode-a bug-compare]",
        "test_a_mistake_of_any_function_is_the_plug_ins[exclude-a bug-compare]",
    ],
    "tests/planners/training/test_bounds.py": [
        "test_no_layout_that_fits_is_faster_than_the_bound[0]",
        "test_no_layout_that_fits_is_faster_than_the_bound[1]",
    ],
    "tests/planners/training/test_calculon_space.py": ["test_whatever_collectives_hide"],
    "tests/planners/training/test_measured.py": ["test_the_fit_explains_what_the_defaults_do_not"],
    "tests/planners/training/test_measured_runs.py": ["test_measured_times_are_met"],
    "tests/planners/training/test_search.py": [
        "test_a_limit_met_to_the_byte_is_decided_by_the_referee[248]",
        "test_the_best_configuration_is_that_of_enumeration",
        "test_the_best_configuration_is_that_of_enumeration[4]",
        "test_the_best_configuration_is_that_of_enumeration[8]",
        "test_the_best_configuration_is_that_of_enumeration_many_times",
        "test_the_best_configuration_is_that_of_enumeration_many_times[range(100, 110)]",
        "test_the_best_configuration_is_that_of_enumeration_many_times[range(110, 120)]",
        "test_the_best_of_what_is_asked_for_is_that_of_enumeration",
        "test_the_best_of_what_is_asked_for_is_that_of_enumeration_many_times",
        "test_the_best_of_what_is_asked_for_is_that_of_enumeration_many_times[range(120, 140)]",
        "test_the_best_of_what_is_asked_for_is_that_of_enumeration_many_times[range(140, 160)]",
        "test_the_list_has_every_choice_that_may_be_the_fastest[0-0.03]",
        "test_the_list_has_every_choice_that_may_be_the_fastest[0-0.0]",
    ],
    "tests/workloads/test_latency_published.py": [
        "test_layer_graphs_of_convolutional_networks_are_nearly_solved_without_a_search[inceptionv3_inference-0.5]",
        "test_layer_graphs_of_convolutional_networks_are_nearly_solved_without_a_search[inceptionv3_inference-1.6]",
        "test_layer_graphs_of_convolutional_networks_are_nearly_solved_without_a_search[inceptionv3_inference-3.0]",
        "test_more_subgraphs_per_device_do_not_help_bert_3[3]",
    ],
    "tests/workloads/test_piper_claims.py": [
        "test_piper_is_best_in_every_cell[1]",
        "test_piper_is_best_in_every_cell[80]",
        "test_piper_is_best_in_every_cell[8]",
        "test_rows_where_exact_knapsacks_are_better[resnet-resnet50]",
        "test_table_1_of_resnet50",
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
"""Take more than a second of processor time each, while a quicker case of the same test, or another test of the same
file, runs without them; a name without a case means the cases that would run with `--sweeps`. They run with `--slow`,
before an issue is resolved."""
