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
        "test_golden_chains[golden-1-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-1-ilp-beaumont-highs]",
        "test_golden_chains[golden-2-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-2-ilp-beaumont-highs]",
        "test_golden_chains[golden-3-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-3-ilp-beaumont-highs]",
        "test_golden_chains[golden-4-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-4-ilp-beaumont-highs]",
        "test_golden_chains[golden-5-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-6-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-6-ilp-beaumont-highs]",
        "test_golden_chains[golden-7-ilp-beaumont-cp-sat]",
        "test_golden_chains[golden-7-ilp-beaumont-highs]",
    ],
    "tests/formulations/graphpipe/test_cp_graphpipe_iteration.py": [
        "test_stages_of_one_size_alone",
    ],
    "tests/formulations/piper/test_near_stages.py": [
        "test_where_few_stages_may_be_listed_limits_rise_step_by_step",
    ],
    "tests/formulations/piper/test_piper_columns.py": [
        "test_published_graphs_have_the_published_numbers_of_sets[resnet-242-28729]",
    ],
    "tests/formulations/tarnawski_latency/test_cells.py": [
        "test_a_time_limit_ends_the_division_of_a_large_cell[True]",
        "test_large_cells_are_priced_by_their_longest_path",
        "test_machine_code_finds_the_same",
        "test_what_a_time_limit_has_ended_goes_on_where_it_stopped",
    ],
    "tests/formulations/test_decimal_rows.py": [
        "test_rows_in_decimals_are_exact_or_called_rounded[ilp-beaumont]",
        "test_rows_in_decimals_are_exact_or_called_rounded[ip-tarnawski-latency]",
        "test_rows_in_decimals_are_exact_or_called_rounded[mip-piper]",
    ],
    "tests/formulations/zero_bubble/test_finite_bounds.py": [
        "test_filling_and_draining_cost_time_together[16-64-times1-1-32-2160]",
    ],
    "tests/formulations/zero_bubble/test_finite_models.py": [
        "test_a_limit_is_kept_to_the_last_of_twenty_digits[0-method1]",
        "test_a_limit_is_kept_to_the_last_of_twenty_digits[inf-method0]",
        "test_a_limit_is_kept_to_the_last_of_twenty_digits[inf-method1]",
    ],
    "tests/formulations/zero_bubble/test_finite_orders.py": [
        "test_times_of_given_orders_are_never_worse[makespan-0]",
    ],
    "tests/formulations/zero_bubble/test_periodic.py": [
        "test_periods_of_shapes[nn-4]",
        "test_plenty_of_memory_leaves_the_load[nn]",
    ],
    "tests/instances/base/test_clock.py": [
        "test_a_speed_that_is_none_is_refused_in_a_sentence[-1]",
        "test_a_speed_that_is_none_is_refused_in_a_sentence[0]",
        "test_a_speed_that_is_none_is_refused_in_a_sentence[fast]",
        "test_a_speed_that_is_none_is_refused_in_a_sentence[inf]",
        "test_a_speed_that_is_none_is_refused_in_a_sentence[nan]",
    ],
    "tests/instances/base/test_compiled.py": [
        "test_code_that_is_made_ahead_is_waited_for",
        "test_the_plain_function_will_do_until_the_code_is_there",
    ],
    "tests/instances/graph_pipeline/test_recipes.py": [
        "test_the_tiny_graph_is_known_by_enumeration[True-time-per-sample]",
    ],
    "tests/instances/networks/profile/test_lowering.py": [
        "test_what_comes_out_can_be_planned[training]",
    ],
    "tests/instances/networks/profile/test_malformed_tables.py": [
        "test_one_sentence_says_where_and_what_to_do[header alone]",
        "test_one_sentence_says_where_and_what_to_do[no Excel file]",
    ],
    "tests/instances/networks/profile/test_table.py": [
        "test_numbers_may_be_names",
        "test_spreadsheets_and_parquet_are_read_alike",
    ],
    "tests/instances/placement/test_contiguity.py": [
        "test_long_chains_need_no_recursion",
    ],
    "tests/instances/placement/test_files.py": [
        "test_a_round_trip_keeps_everything",
    ],
    "tests/instances/placement/test_grouped_plans.py": [
        "test_a_plan_is_what_its_json_says",
    ],
    "tests/instances/placement/test_referee_properties.py": [
        "test_a_colour_on_two_devices_breaks_colocation",
        "test_a_way_out_and_back_breaks_the_contiguity_of_a_device",
        "test_an_unsupported_node_on_an_accelerator_breaks_support",
        "test_given_pieces_are_kept",
        "test_shrunken_memory_breaks_memory",
        "test_verdicts_near_valid_plans",
    ],
    "tests/instances/schedule/test_mutants.py": [
        "test_mutants_are_refused_or_valid_by_both_judges",
    ],
    "tests/instances/test_bombs.py": [
        "test_a_bomb_is_refused_at_once[a far column]",
        "test_a_bomb_is_refused_at_once[a footer that lies]",
        "test_a_bomb_is_refused_at_once[a key at the end that is repeated]",
        "test_a_bomb_is_refused_at_once[a list]",
        "test_a_bomb_is_refused_at_once[a repeated text]",
        "test_a_bomb_is_refused_at_once[many cells in a row]",
        "test_a_bomb_is_refused_at_once[many empty cells]",
        "test_a_bomb_is_refused_at_once[many rows]",
        "test_a_bomb_is_refused_at_once[one long text]",
    ],
    "tests/instances/test_schemas.py": [
        "test_what_we_write_passes",
    ],
    "tests/instances/timeline/test_compiled_iteration.py": [
        "test_a_million_passes_take_the_closed_form",
        "test_both_agree_on_times_and_on_what_cannot_be_run[range(0, 150)]",
    ],
    "tests/instances/training/test_steady.py": [
        "test_counted_passes_take_and_hold_what_listed_ones_do[dualpipe-v]",
        "test_counted_passes_take_and_hold_what_listed_ones_do[zb-v]",
    ],
    "tests/pipeplan/models/export/test_training_exports.py": [
        "test_answers_of_a_framework_are_written_by_its_own_export[megatron]",
        "test_whatever_the_referee_accepts_is_written[torchtitan]",
    ],
    "tests/pipeplan/show/test_answer.py": [
        "test_no_scope_is_read_as_the_claim_itself[gap-tiny-graph]",
        "test_no_scope_is_read_as_the_claim_itself[infeasible-tiny-graph]",
        "test_no_scope_is_read_as_the_claim_itself[optimal-tiny-graph]",
    ],
    "tests/pipeplan/show/test_browser.py": [
        "test_a_table_is_sorted_by_its_heading_with_the_keyboard",
        "test_every_part_is_seen_and_the_console_is_silent[tiny-chain-desk]",
        "test_every_part_is_seen_and_the_console_is_silent[tiny-chain-phone]",
        "test_zooming_widens_the_picture_within_its_frame",
    ],
    "tests/pipeplan/show/test_canvas.py": [
        "test_logarithmic_axes_have_numbers_and_no_source_of_formulas",
        "test_the_ending_decides_the_format",
        "test_the_same_facts_give_the_same_svg_with_escaped_text",
    ],
    "tests/pipeplan/show/test_configuration_page.py": [
        "test_a_result_of_another_command_has_no_such_parts",
        "test_a_time_that_the_referee_contradicts_is_told_and_not_shown",
        "test_the_page_loads_nothing",
        "test_the_shortlist_says_whose_times_it_has",
        "test_what_is_faster_than_the_best_but_may_not_fit_says_so",
    ],
    "tests/pipeplan/show/test_explore_page.py": [
        "test_what_the_sliders_cannot_say_is_refused_with_the_reason[case-study-graphpipe-its stages are no chain]",
    ],
    "tests/pipeplan/show/test_iteration.py": [
        "test_an_even_split_that_does_not_fit_says_by_how_much[on1]",
    ],
    "tests/pipeplan/show/test_narrow.py": [
        "test_a_file_holds_whole_tables[instances]",
        "test_a_file_holds_whole_tables[planners]",
        "test_few_characters_and_few_columns_garble_nothing[instances]",
        "test_few_characters_and_few_columns_garble_nothing[planners]",
    ],
    "tests/pipeplan/show/test_plan_pictures.py": [
        "test_every_kind_has_a_picture[chain]",
        "test_kinds_of_memory_that_do_not_occur_are_not_in_the_legend",
        "test_stages_and_times_stand_in_the_picture",
        "test_the_words_of_a_stage_stay_in_its_box",
    ],
    "tests/pipeplan/show/test_report.py": [
        "test_an_unfinished_comparison_has_a_page_as_well",
        "test_the_command_finds_packaged_instances_by_itself",
    ],
    "tests/pipeplan/show/test_schedule_view.py": [
        "test_the_picture_has_numbers_kinds_and_memory_below",
    ],
    "tests/pipeplan/show/test_words.py": [
        "test_what_more_memory_is_worth_has_a_name_and_an_axis_from_zero",
    ],
    "tests/pipeplan/studies/compare/test_comparison.py": [
        "test_a_cluster_that_does_not_answer_is_a_sentence",
        "test_failed_runs_are_run_again_only_when_that_is_asked",
    ],
    "tests/pipeplan/studies/compare/test_lacking.py": [
        "test_a_missing_extra_costs_its_column_and_one_line",
    ],
    "tests/pipeplan/studies/compare/test_stale.py": [
        "test_a_plug_in_whose_code_changed_runs_again_and_no_other",
        "test_an_installed_package_counts_with_all_its_files",
    ],
    "tests/pipeplan/studies/compare/test_table.py": [
        "test_the_summary_counts_failures_beside_the_mean",
    ],
    "tests/pipeplan/studies/test_configure.py": [
        "test_a_list_of_one_is_called_so",
        "test_a_narrower_scope_is_kept",
        "test_a_plan_that_the_referee_has_not_accepted_is_no_best_one",
        "test_choices_that_are_not_excluded_stand_beside_the_list",
        "test_json_keeps_its_schema",
        "test_losses_and_times_of_judged_configurations_are_never_taken_from_the_file",
        "test_results_of_other_commands_have_no_list",
        "test_the_list_and_what_was_judged_come_back_as_they_were_found",
        "test_the_searchs_times_are_the_referees",
    ],
    "tests/pipeplan/studies/test_export_page.py": [
        "test_a_formulation_of_ones_own_is_told_by_its_name",
        "test_every_block_of_rows_and_columns_has_its_words[chain]",
        "test_every_block_of_rows_and_columns_has_its_words[columns]",
        "test_every_block_of_rows_and_columns_has_its_words[devices]",
        "test_every_block_of_rows_and_columns_has_its_words[plain]",
        "test_every_block_of_rows_and_columns_has_its_words[stages]",
        "test_rows_and_columns_are_those_of_the_file[plain-.lp]",
        "test_rows_and_columns_are_those_of_the_file[schedule-.lp]",
    ],
    "tests/pipeplan/studies/test_gpus.py": [
        "test_a_run_goes_on_where_it_was_cut",
        "test_each_point_is_the_optimum_on_so_many_gpus",
    ],
    "tests/pipeplan/studies/test_schedule_comparison.py": [
        "test_every_kind_has_a_table[golden-4]",
    ],
    "tests/pipeplan/test_cli_compare.py": [
        "test_for_machines_it_is_one_object_with_a_row_a_run",
    ],
    "tests/pipeplan/test_cli_configure.py": [
        "test_a_wider_error_makes_no_shorter_list",
        "test_errors_for_which_no_list_can_allow_are_refused",
        "test_few_good_runs_are_no_reason_for_a_smaller_error_than_usual",
        "test_runs_change_the_efficiencies_and_can_be_saved",
        "test_the_page_has_the_list_what_was_judged_and_what_runs_changed",
        "test_the_scope_can_be_narrowed",
        "test_what_is_written_can_be_verified_shown_exported_reported_and_solved_again",
        "test_why_not_says_what_is_lost_by_part",
    ],
    "tests/pipeplan/test_cli_graph_pipeline.py": [
        "test_a_simulation_is_drawn",
        "test_what_would_be_wider_can_be_asked_for",
    ],
    "tests/pipeplan/test_cli_help.py": [
        "test_a_pipe_between_two_commands",
        "test_a_table_of_a_planner_is_named_and_a_split_that_is_read_is_not",
        "test_commands_options_and_methods_are_completed[plan so-found0]",
        "test_every_file_that_was_written_is_named_on_stderr",
        "test_every_option_that_is_accepted_is_documented_somewhere",
    ],
    "tests/pipeplan/test_cli_import.py": [
        "test_a_result_knows_its_cluster[cluster2]",
        "test_every_command_that_takes_an_instance_takes_the_table",
        "test_how_much_memory_a_table_needs",
        "test_one_more_device_is_worth_what_solve_says[levels0]",
        "test_options_of_the_lowering",
        "test_the_usual_planner_of_graph_pipelines_takes_it_too",
    ],
    "tests/pipeplan/test_cli_latency.py": [
        "test_subgraphs_per_device_count_and_travel_with_the_result",
        "test_the_schedule_as_a_gantt",
    ],
    "tests/pipeplan/test_cli_lists.py": [
        "test_one_method_with_its_options[planners-table1]",
    ],
    "tests/pipeplan/test_cli_memory.py": [
        "test_what_more_memory_is_worth_as_table_json_file_and_picture",
    ],
    "tests/pipeplan/test_cli_pareto.py": [
        "test_a_file_that_lacks_what_this_version_keeps_is_to_be_begun_anew[lower-golden-4]",
        "test_period_against_memory_as_table_points_csv_and_picture",
    ],
    "tests/pipeplan/test_cli_processes.py": [
        "test_a_closed_pipe_is_silent[arguments0]",
        "test_a_closed_pipe_is_silent[arguments1]",
        "test_a_full_disk_leaves_the_curve_that_was_there",
        "test_a_signal_after_the_search_changes_nothing[15]",
        "test_an_interrupt_before_there_is_a_plan",
        "test_an_interrupt_prints_and_saves_the_incumbent",
        "test_ctrl_c_reaches_the_whole_group_of_processes",
        "test_help_is_there_at_once",
    ],
    "tests/pipeplan/test_cli_schedule.py": [
        "test_an_export_with_a_model_for_the_problem_says_what_to_drop",
        "test_result_and_problem_go_on_to_the_other_commands",
        "test_the_rule_that_the_search_begins_with_is_not_called_the_readers_plan",
    ],
    "tests/pipeplan/test_cli_simulate_memory.py": [
        "test_gpipe_needs_more_than_there_is[types]",
    ],
    "tests/pipeplan/test_cli_staging_extensions.py": [
        "test_levels_show_what_each_layer_runs",
    ],
    "tests/pipeplan/test_cli_workloads.py": [
        "test_contiguous_layer_graphs_from_the_command_line[inceptionv3_inference]",
    ],
    "tests/pipeplan/test_cli_writers.py": [
        "test_a_full_disk_leaves_the_old_file[report placed.json -o {new}.html]",
        "test_a_signal_after_the_file_is_written_changes_nothing[report placed.json -o {new}.html]",
    ],
    "tests/pipeplan/test_cli_zero_and_gpus.py": [
        "test_mixed_gpus_as_far_as_a_server[staging]",
    ],
    "tests/pipeplan/test_first_answer.py": [
        "test_a_model_of_pyomo_loads_no_statistics",
    ],
    "tests/pipeplan/test_ten_lines.py": [
        "test_a_training_is_configured_like_anything_else",
        "test_loads_and_memory_are_by_name_and_the_largest_load_is_the_value[tiny-graph]",
        "test_loads_and_memory_are_by_name_and_the_largest_load_is_the_value[tiny-training]",
    ],
    "tests/pipeplan/test_types.py": [
        "test_a_users_script_has_types[plain-readme]",
        "test_a_users_script_has_types[plain-right]",
    ],
    "tests/planners/backends/test_conformance.py": [
        "test_a_busy_worker_is_not_waited_for[cp-sat]",
        "test_a_busy_worker_is_not_waited_for[scip]",
        "test_a_killed_solver_costs_neither_the_incumbent_nor_the_next_task",
        "test_a_memory_limit_stops",
        "test_a_time_limit_keeps_what_was_found[cp-sat]",
        "test_a_time_limit_keeps_what_was_found[scip]",
        "test_a_time_limit_without_any_solution[highs]",
        "test_a_time_limit_without_any_solution[scip]",
        "test_an_accepted_start_is_the_first_incumbent[highs]",
        "test_an_accepted_start_is_the_first_incumbent[scip]",
        "test_kill_ends_a_job_at_once[cp-sat]",
        "test_kill_ends_a_job_at_once[highs]",
        "test_what_a_second_opinion_counts_ends_it_without_a_clock[cp-sat]",
    ],
    "tests/planners/backends/test_matrix.py": [
        "test_a_contradiction_without_variables_is_written[model.mps]",
        "test_a_maximisation_is_marked_in_the_file[model.mps-*]",
        "test_an_exported_file_has_the_same_columns[model.lp]",
        "test_an_exported_file_has_the_same_optimum[model.mps]",
        "test_or_tools_reads_the_same_model",
    ],
    "tests/planners/backends/test_scaling.py": [
        "test_scaling_loses_no_solution_and_no_bound",
    ],
    "tests/planners/backends/test_wanted_parameters.py": [
        "test_the_users_own_parameters_come_last[own0-0]",
    ],
    "tests/planners/backends/test_workers.py": [
        "test_a_crash_is_told_with_the_last_words",
        "test_a_process_that_was_loaded_ahead_takes_the_next_task",
        "test_a_worker_that_does_not_stop_is_killed",
        "test_a_worker_that_hangs_is_killed_after_its_limit",
        "test_a_worker_that_still_loads_at_its_limit_is_not_waited_for",
        "test_ctrl_c_returns_the_incumbent[scip]",
        "test_the_parent_never_imports_a_solver",
    ],
    "tests/planners/chain/test_chain_edges.py": [
        "test_each_way_between_two_gpus_has_its_own_link_where_links_are_full_duplex[ilp-beaumont on cp-sat]",
    ],
    "tests/planners/chain/test_exact_beaumont.py": [
        "test_a_search_starts_from_the_plan_that_it_is_given",
        "test_periods_that_only_overrun_slots_reach_are_refuted",
    ],
    "tests/planners/chain/test_layer_sets.py": [
        "test_loops_on_disk_are_loaded_by_the_clock_and_others_made_by_the_processors_time[1.5-0.1-False-False]",
        "test_loops_on_disk_are_loaded_by_the_clock_and_others_made_by_the_processors_time[9.0-1.1-False-True]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-1-at once]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-2-at once]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-3-at once]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-3-never]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-4-at once]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-4-never]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-5-at once]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-5-never]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-6-at once]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-6-never]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-7-at once]",
        "test_with_walks_and_without_the_answer_is_the_known_one[golden-7-never]",
    ],
    "tests/planners/chain/test_memory_sweep.py": [
        "test_the_solver_takes_over_where_the_sweep_cannot_tell[8]",
    ],
    "tests/planners/exact/test_float_proofs.py": [
        "test_false_optima_of_the_past[presolve-auto-highs]",
        "test_false_optima_of_the_past[presolve-none-scip]",
    ],
    "tests/planners/exact/test_placements_agree.py": [
        "test_float_solvers_do_not_see_some_bytes_and_are_put_right[1000-plain-highs]",
        "test_float_solvers_do_not_see_some_bytes_and_are_put_right[17-plain-highs]",
        "test_float_solvers_do_not_see_some_bytes_and_are_put_right[17-plain-scip]",
        "test_float_solvers_do_not_see_some_bytes_and_are_put_right[17-stages-scip]",
    ],
    "tests/planners/exact/test_solver_claims.py": [
        "test_what_rounding_explains_is_no_contradiction[graph-pipeline]",
        "test_what_rounding_explains_is_no_contradiction[latency]",
        "test_what_rounding_explains_is_no_contradiction[levels]",
        "test_what_rounding_explains_is_no_contradiction[placement]",
    ],
    "tests/planners/graph_pipeline/test_bounds.py": [
        "test_chains_are_proven[8-8-options3-69.0]",
        "test_where_stages_may_have_several_devices_it_is_near[7]",
    ],
    "tests/planners/graph_pipeline/test_iterations.py": [
        "test_alike_branches_take_places_in_turn[3-2-4]",
        "test_alike_branches_take_places_in_turn[4-1-4]",
        "test_packaged_networks_are_within_two_percent[candle-uno-8-0.13966644-0.0]",
    ],
    "tests/planners/graph_pipeline/test_planner.py": [
        "test_case_study",
        "test_planners_are_equal_on_a_chain",
    ],
    "tests/planners/memory/test_smallest.py": [
        "test_a_training_has_its_least_memory_to_the_byte[tiny-training]",
    ],
    "tests/planners/placement/test_annealing.py": [
        "test_a_warm_start_that_exceeds_the_memory_is_refused",
        "test_runs_repeat_themselves_and_a_warm_start_is_never_lost",
    ],
    "tests/planners/placement/test_device_sets.py": [
        "test_every_set_is_one_path_and_pays_what_it_cuts",
        "test_no_bound_is_above_the_optimum",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[0-0]",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[0-1]",
        "test_no_bound_is_above_the_optimum_of_a_dense_block[1-0]",
    ],
    "tests/planners/placement/test_dp.py": [
        "test_a_gap_that_is_asked_for_ends_the_run_and_bounds_the_optimum",
        "test_a_start_is_kept_or_improved_and_proven[pruned-one-device]",
        "test_progress_tells_ideals_incumbent_and_bound",
        "test_replicas_on_a_larger_graph_are_exact",
        "test_threads_share_the_work_and_change_nothing[3]",
        "test_too_many_ideals_end_in_a_plan_with_its_gap",
    ],
    "tests/planners/placement/test_heuristics.py": [
        "test_plans_are_valid_claims_true_and_none_beats_the_best[lns-gpipe-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[lns-max-load-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[partition-gpipe-contiguous]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best[partition-max-load-contiguous]",
        "test_the_same_seed_gives_the_same_plan[lns]",
    ],
    "tests/planners/run/test_claims.py": [
        "test_a_problem_that_is_gone_is_told",
        "test_a_resumed_comparison_recomputes_as_well",
        "test_nothing_is_said_of_results_that_nobody_touched[case-study {'planner': 'graphpipe'}]",
        "test_nothing_is_said_of_results_that_nobody_touched[tiny-chain {'formulation': 'ip-tarnawski-latency'}]",
        "test_results_of_a_folder_are_recomputed_when_they_are_read",
        "test_untouched_folders_say_nothing",
    ],
    "tests/planners/run/test_cross_check.py": [
        "test_both_methods_for_stage_graphs_confirm_each_other[method1-other1-options2]",
    ],
    "tests/planners/run/test_in_scope.py": [
        "test_the_better_plan_is_the_answer_and_the_proof_is_kept[shortest-iteration]",
    ],
    "tests/planners/run/test_proof_check.py": [
        "test_who_confirms_whom[golden-4 {'formulation': 'cp-beaumont', 'options': {'batches_per_period': 2}}]",
        "test_who_confirms_whom[golden-4 {'formulation': 'ilp-beaumont', 'solver': 'cp-sat'}]",
        "test_who_confirms_whom[golden-4 {'planner': 'exact-beaumont'}]",
        "test_who_confirms_whom[tiny-chain {'formulation': 'ip-tarnawski-latency'}]",
    ],
    "tests/planners/run/test_scope.py": [
        "test_every_bound_and_every_proof_has_a_scope[ilp-beaumont]",
    ],
    "tests/planners/run/test_solver_death.py": [
        "test_the_death_of_solvers_leaves_the_plan_of_a_heuristic[cp-beaumont-killed-named]",
        "test_the_death_of_solvers_leaves_the_plan_of_a_heuristic[cp-beaumont-memory-auto]",
        "test_the_death_of_solvers_leaves_the_plan_of_a_heuristic[cp-periodic-killed-auto]",
        "test_the_death_of_solvers_leaves_the_plan_of_a_heuristic[cp-periodic-killed-named]",
        "test_the_death_of_solvers_leaves_the_plan_of_a_heuristic[cp-periodic-memory-auto]",
        "test_the_death_of_solvers_leaves_the_plan_of_a_heuristic[cp-periodic-memory-named]",
    ],
    "tests/planners/run/test_warm_up.py": [
        "test_a_small_problem_is_planned_without_machine_code[bert-large-stages]",
        "test_a_small_problem_is_planned_without_machine_code[gpt2-medium-stages]",
    ],
    "tests/planners/run/test_why_none.py": [
        "test_every_exact_method_says_what_would_be_enough[ilp-beaumont]",
    ],
    "tests/planners/schedule/test_greedy.py": [
        "test_between_the_memory_of_both_rules_it_is_near_the_optimum[16-64-times0-1-48-2035]",
        "test_between_the_memory_of_both_rules_it_is_near_the_optimum[8-32-times2-2-24-1032]",
        "test_between_the_memory_of_both_rules_it_is_near_the_optimum[8-32-times3-2-28-1012]",
        "test_it_is_near_the_published_heuristic[4-12-times0-0-8-201]",
        "test_it_is_near_the_published_heuristic[4-12-times1-0-10-193]",
        "test_it_is_near_the_published_heuristic[4-12-times2-0-11-193]",
        "test_it_is_near_the_published_heuristic[4-12-times3-0-12-188]",
        "test_it_is_near_the_published_heuristic[4-12-times4-0-14-183]",
        "test_it_is_near_the_published_heuristic[4-12-times5-0-16-183]",
        "test_it_is_near_the_published_heuristic[4-12-times7-200-32-178898]",
    ],
    "tests/planners/schedule/test_list_schedule.py": [
        "test_no_rule_ever_gets_stuck_where_one_micro_batch_fits[0]",
        "test_published_pipelines_within_two_percent_of_their_optimum[4-12-8-201]",
        "test_the_first_plan_of_many_blocks_is_good",
    ],
    "tests/planners/staging/test_equal.py": [
        "test_a_plan_for_mixed_gpus_is_compared_with_the_even_split",
        "test_what_an_even_split_lacks_on_the_smaller_gpus_is_told_in_their_units",
    ],
    "tests/planners/staging/test_extended.py": [
        "test_many_micro_batches_hide_the_flush[resnet50-stages]",
        "test_one_type_is_the_flat_problem[0-paper]",
        "test_types_are_mixed_in_some_examples_and_missing_in_others",
    ],
    "tests/planners/staging/test_levels.py": [
        "test_a_search_that_is_out_of_time_leaves_a_plan",
        "test_gpt2_medium_needs_recomputation_and_tensor_parallelism[tensor parallelism]",
        "test_what_is_known_of_stagings_is_found_by_another_program[resnet50-stages]",
    ],
    "tests/planners/staging/test_planner.py": [
        "test_equals_brute_force[0-paper]",
        "test_on_a_path_it_is_the_optimum_without_memory_and_tensor_parallelism",
        "test_the_plan_of_the_hand_check",
    ],
    "tests/planners/staging/test_search.py": [
        "test_numbers_and_pictures_in_files",
        "test_places_without_a_plan_stay_empty",
        "test_the_picture_gives_times_as_people_read_them",
    ],
    "tests/planners/test_either_way.py": [
        "test_either_way_gives_the_same_answer[chain, parts]",
        "test_either_way_gives_the_same_answer[chain, wholes]",
        "test_either_way_gives_the_same_answer[dp]",
        "test_either_way_gives_the_same_answer[schedule]",
        "test_either_way_gives_the_same_answer[walks]",
    ],
    "tests/planners/test_interrupts.py": [
        "test_an_interrupt_leaves_no_false_bound[graph-pipeline: graphpipe objective=time-per-sample]",
        "test_an_interrupt_leaves_no_false_bound[training: exact-configuration memory_error=0.0]",
    ],
    "tests/planners/training/test_asked_scopes.py": [
        "test_a_scope_without_anything_says_why[expert=2--megatron-expert=1 where there are none]",
        "test_a_scope_without_anything_says_why[recompute=layernorm--megatron-choose recompute=none]",
        "test_what_is_forbidden_is_in_no_answer[megatron]",
    ],
    "tests/planners/training/test_bounds.py": [
        "test_no_layout_that_fits_is_faster_than_the_bound[258]",
        "test_the_bound_knows_time_and_memory",
    ],
    "tests/planners/training/test_calculon_space.py": [
        "test_the_search_finds_what_enumeration_of_calculons_space_finds",
    ],
    "tests/planners/training/test_fit.py": [
        "test_numbers_stay_within_physical_bounds",
    ],
    "tests/planners/training/test_measured.py": [
        "test_a_fit_is_saved_and_given_again",
        "test_a_share_left_out_at_a_time",
        "test_every_run_is_left_out_once_and_its_error_is_the_tolerance",
        "test_what_each_run_said_of_each_efficiency",
    ],
    "tests/planners/training/test_measured_runs.py": [
        "test_measured_times_are_met[a100_2205_05198.json-fitted0-a100-0.0365-None-0.0887]",
        "test_measured_times_are_met[b200_measured.json-fitted2-B200 deepseekv2-0.1-None-None]",
    ],
    "tests/planners/training/test_search.py": [
        "test_a_row_of_stages_may_have_its_slowest_one_first",
        "test_an_interrupt_inside_a_refinement_loses_no_item",
        "test_no_configuration_of_an_entry_is_faster_than_its_bound",
        "test_nothing_fits_only_where_that_is_proven",
        "test_the_best_configuration_is_that_of_enumeration[0]",
        "test_the_list_has_every_choice_that_may_be_the_fastest",
        "test_what_no_bound_excludes_is_named_beside_the_list",
    ],
    "tests/test_ablation.py": [
        "test_a_group_is_switched_off_and_counted",
    ],
    "tests/test_docs.py": [
        "test_one_row_more_has_the_optimum_of_the_plans_that_keep_it[True]",
        "test_the_command_that_launches_a_job_hands_every_flag_on_and_contradicts_none",
        "test_the_example_on_the_first_page_prints_what_stands_below_it",
        "test_the_formulation_of_the_page_on_extending_proves_what_the_dynamic_program_does",
        "test_the_page_on_the_api_lists_the_public_names_and_no_others",
        "test_the_stream_of_progress_is_json_to_its_end_and_can_be_drawn",
    ],
    "tests/test_golden.py": [
        "test_a_result_is_what_it_was[placement-device-sets]",
    ],
    "tests/test_models_on_paper.py": [
        "test_a_question_finds_the_page_that_answers_it_first[memory 1F1B-training-memory]",
        "test_every_row_of_the_code_is_on_a_page_once_and_no_page_has_others",
        "test_names_of_rows_become_links_to_their_lines",
        "test_rows_of_exported_models_are_on_the_pages_by_their_names",
    ],
    "tests/test_pages.py": [
        "test_a_denial_is_seen[It runs nothing.]",
        "test_a_page_runs_as_it_is_written[docs/explore.md]",
        "test_a_page_runs_as_it_is_written[docs/start.md]",
        "test_no_words_leak_from_how_it_was_made",
    ],
    "tests/test_proofs.py": [
        "test_enumerations_follow_the_units[chain]",
        "test_enumerations_follow_the_units[latency]",
    ],
    "tests/test_regression.py": [
        "test_a_new_table_keeps_the_rows_of_other_cases",
        "test_a_wrong_optimum_fails_the_command",
        "test_an_unchanged_case_passes",
    ],
    "tests/test_toy_kind.py": [
        "test_a_wrong_plan_of_a_new_kind_is_refused",
        "test_the_cluster_of_the_command_line_is_that_of_the_kind",
    ],
    "tests/workloads/test_dp_published.py": [
        "test_the_papers_optimum_to_all_digits[layer/inceptionv3_inference]",
        "test_the_papers_optimum_to_all_digits[layer/resnet50_inference]",
        "test_the_papers_optimum_to_all_digits[operator/bert_L-12_training]",
        "test_the_papers_optimum_to_all_digits[operator/bert_l-3_inference]",
        "test_the_papers_optimum_to_all_digits[operator/bert_l-3_training]",
        "test_the_papers_optimum_to_all_digits[operator/bert_l-6_inference]",
    ],
    "tests/workloads/test_latency_published.py": [
        "test_more_subgraphs_per_device_do_not_help_bert_3[2]",
        "test_the_divided_path_comes_close_without_a_solver[bert_l-3_inference]",
    ],
    "tests/workloads/test_piper_claims.py": [
        "test_one_gibibyte_needs_tensor_parallelism_and_recomputation",
        "test_table_1_of_resnet50[8-16-58.5656-108.886]",
        "test_table_1_of_resnet50[8-4-74.2513-None]",
        "test_table_1_of_resnet50[8-8-63.4363-164.159]",
        "test_without_data_parallelism_the_broadcast_of_the_mask_is_a_floor",
    ],
    "tests/workloads/test_tarnawski_throughput.py": [
        "test_contiguous_optimum_to_all_printed_digits[layer/bert24_inference]",
        "test_contiguous_optimum_to_all_printed_digits[layer/gnmt_inference]",
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
        "test_larger_rows_are_nearly_solved_without_a_search[series-parallel]",
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
    "tests/instances/placement/test_grouped_plans.py": ["test_a_plan_is_what_its_json_says[1]"],
    "tests/instances/placement/test_problem.py": ["test_a_long_chain_is_no_trouble"],
    "tests/instances/staging/test_staged_referee.py": [
        "test_a_published_plan_one_batch_of_memory_short_is_caught",
        "test_every_published_plan_is_recomputed",
    ],
    "tests/instances/training/test_seconds.py": ["test_published_times_on_a100"],
    "tests/instances/training/test_steady.py": ["test_counted_passes_take_and_hold_what_listed_ones_do_many_times"],
    "tests/pipeplan/models/export/test_real_parsers.py": [
        "test_the_script_trains_with_the_loss_inside_or_outside[functions1]"
    ],
    "tests/pipeplan/models/run/test_transformers.py": [
        "test_the_gradients_are_those_of_one_process[t5]",
        "test_the_gradients_are_those_of_one_process[whisper]",
    ],
    "tests/pipeplan/show/test_plan_pictures.py": ["test_every_kind_has_a_picture"],
    "tests/pipeplan/test_cli_import.py": ["test_a_result_knows_its_cluster"],
    "tests/pipeplan/test_cli_pareto.py": ["test_a_file_that_lacks_what_this_version_keeps_is_to_be_begun_anew"],
    "tests/pipeplan/test_cli_writers.py": [
        "test_a_full_disk_leaves_the_old_file",
        "test_a_signal_after_the_file_is_written_changes_nothing",
    ],
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
    "tests/planners/graph_pipeline/test_bounds.py": [
        "test_a_gap_that_is_open_is_not_called_proven",
        "test_a_wider_choice_never_raises_it",
    ],
    "tests/planners/graph_pipeline/test_iterations.py": [
        "test_a_check_that_would_be_too_large_costs_no_plan",
        "test_packaged_networks_are_within_two_percent",
        "test_packaged_networks_are_within_two_percent[dlrm-8-0.05764528-0.0]",
        "test_the_bound_is_nearly_always_the_optimum",
        "test_the_formulation_asks_the_program_by_itself",
        "test_with_groups_of_passes_transfers_may_be_hidden",
    ],
    "tests/planners/graph_pipeline/test_nasty_graph_pipelines.py": [
        "test_other_planners_keep_to_the_memory[graphpipe-parallel]",
        "test_other_planners_keep_to_the_memory[piper-downsets]",
    ],
    "tests/planners/graph_pipeline/test_planner.py": [
        "test_ablation_is_between_the_row_and_the_graph[candle_uno]",
        "test_ablation_is_between_the_row_and_the_graph[dlrm]",
        "test_ablation_is_between_the_row_and_the_graph[mmt]",
        "test_case_study[True-5-gains1]",
        "test_more_branches_gain_more[8]",
        "test_more_branches_gain_more[None]",
        "test_more_devices_gain_more[candle_uno]",
        "test_no_planner_beats_the_best_known_time",
        "test_no_planner_beats_the_best_known_time[dlrm-8-graphpipe-iteration]",
        "test_no_planner_beats_the_best_known_time[mmt-8-graphpipe-iteration]",
    ],
    "tests/planners/memory/test_smallest.py": [
        "test_a_training_has_its_least_memory_to_the_byte",
        "test_a_training_has_its_least_memory_to_the_byte[tiny-experts-training]",
        "test_more_options_never_cost_the_answer",
    ],
    "tests/planners/placement/test_device_sets.py": [
        "test_dear_transfers_are_proven_where_work_alone_says_little[{'formulation': 'ip-tarnawski'}]",
    ],
    "tests/planners/placement/test_dp.py": [
        "test_equals_the_best_of_all_plans[levels-max-load-True-False-30]",
        "test_equals_the_best_of_all_plans[levels-max-load-True-True-1]",
        "test_equals_the_best_of_all_plans[types-gpipe-True-True-1]",
        "test_equals_the_best_of_all_plans[types-max-load-False-False-30]",
        "test_equals_the_best_of_all_plans[types-max-load-False-True-20]",
        "test_equals_the_best_of_all_plans[types-max-load-True-False-30]",
        "test_equals_the_best_of_all_plans[types-max-load-True-True-1]",
        "test_in_at_least_half_of_these_problems_a_limit_decides",
    ],
    "tests/planners/placement/test_heuristics.py": [
        "test_many_devices_cost_nothing[greedy]",
        "test_many_devices_cost_nothing[lns]",
        "test_many_devices_cost_nothing[one-device]",
        "test_plans_are_valid_claims_true_and_none_beats_the_best",
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
    "tests/planners/staging/test_extended.py": [
        "test_flushes_change_plans_in_some_examples_and_not_in_others",
        "test_many_micro_batches_hide_the_flush",
    ],
    "tests/planners/staging/test_levels.py": [
        "test_bert32_on_two_servers_of_four",
        "test_gpt2_medium_needs_recomputation_and_tensor_parallelism[recomputation]",
    ],
    "tests/planners/staging/test_planner.py": [
        "test_a_restriction_never_helps_and_keeps_its_word",
        "test_equals_brute_force",
        "test_every_published_value_of_the_program_and_its_restrictions[bert32]",
        "test_every_published_value_of_the_program_and_its_restrictions[resnet50]",
        "test_exact_knapsacks_are_never_worse_and_somewhere_better",
        "test_the_published_greedy_is_never_better_than_the_exact_knapsack[0]",
        "test_the_published_greedy_is_never_better_than_the_exact_knapsack[1]",
    ],
    "tests/planners/staging/test_search.py": [
        "test_every_entry_is_an_optimum_of_its_own[exact-paper]",
        "test_every_entry_is_an_optimum_of_its_own[exact-reference]",
        "test_every_entry_is_an_optimum_of_its_own[greedy-paper]",
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
        "test_at_eight_gibibytes_all_fit_but_the_one_that_ignores_memory",
        "test_one_gibibyte_is_too_little_for_few_devices",
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
        "test_two_gibibytes_leave_few_baselines",
        "test_with_eighty_gibibytes_recomputation_is_not_needed",
    ],
    "tests/workloads/test_tarnawski_throughput.py": [
        "test_contiguous_optimum_to_all_printed_digits[operator/resnet50_inference]",
        "test_cp_sat_proves_the_optimum_without_any_start[operator/bert_l-6_inference]",
        "test_non_contiguous_value_within_one_percent[layer/bert24_inference]",
        "test_non_contiguous_value_within_one_percent[layer/inceptionv3_inference]",
        "test_non_contiguous_value_within_one_percent[operator/bert_l-6_inference]",
        "test_non_contiguous_value_within_one_percent[operator/resnet50_inference]",
    ],
}
"""Take more than a second of processor time each, while a quicker case of the same test, or another test of the same
file, runs without them; a name without a case means the cases that would run with `--sweeps`. They run with `--slow`,
before an issue is resolved."""

FIRST_CASES = {
    "tests/formulations/beaumont/test_known_periods.py": {"test_chains_of_the_theory": 13},
    "tests/instances/base/test_cluster.py": {
        "test_an_option_means_the_same_for_a_packaged_problem_and_for_its_file": 64
    },
    "tests/instances/networks/profile/test_malformed_tables.py": {
        "test_one_sentence_says_where_and_what_to_do": 13
    },
    "tests/instances/networks/profile/test_work.py": {
        "test_a_packaged_profile_becomes_a_problem_of_every_kind": 52
    },
    "tests/instances/test_malformed.py": {"test_a_malformed_problem_is_refused_in_one_sentence": 88},
    "tests/pipeplan/models/export/test_cli_export.py": {"test_bad_input_is_one_sentence": 10},
    "tests/pipeplan/models/export/test_many_plans.py": {
        "test_it_comes_back_or_is_refused_with_what_to_ask_for": 51
    },
    "tests/pipeplan/test_cli_help.py": {"test_the_nearest_name_is_asked_for": 14},
    "tests/pipeplan/test_cli_import.py": {"test_what_makes_no_sense_is_one_sentence": 7},
    "tests/pipeplan/test_cli_mistakes.py": {"test_a_mistake_is_answered_with_what_works": 21},
    "tests/pipeplan/test_cli_numbers.py": {"test_a_number_is_taken_or_refused_in_one_sentence": 23},
    "tests/pipeplan/test_cli_referee.py": {"test_malformed_plans": 33},
    "tests/pipeplan/test_cli_solve.py": {"test_malformed_files": 25},
    "tests/pipeplan/test_every_kind_and_command.py": {"test_a_command_answers_or_refuses": 6},
    "tests/planners/chain/test_exact_beaumont.py": {"test_known_chains": 7},
    "tests/planners/placement/test_heuristics.py": {
        "test_plans_are_valid_claims_true_and_none_beats_the_best": 5,
    },
    "tests/planners/run/test_scope.py": {"test_every_bound_and_every_proof_has_a_scope": 32},
    "tests/planners/schedule/test_named.py": {
        "test_every_rule_is_valid_for_any_number_of_devices_and_micro_batches": 50
    },
    "tests/test_golden.py": {"test_a_result_is_what_it_was": 41},
    "tests/test_models_alone.py": {"test_a_model_alone_holds_the_best_plan": 17},
    "tests/test_proofs.py": {
        "test_more_of_anything_never_hurts": 6,
        "test_names_and_their_order_do_not_matter": 15,
        "test_proofs_agree_with_enumeration": 40,
        "test_units_do_not_matter": 7,
    },
}
"""Of the many cases of these tests the first so many run always, the others with `--sweeps`."""
