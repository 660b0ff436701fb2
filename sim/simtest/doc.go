// Package simtest runs scenarios in `go test`. [Run] explores one, as `stalemate run` does:
//
//	func TestWidgetUpdate(t *testing.T) {
//		simtest.Run(t, simtest.Scenario("testdata/widget-update.yaml"),
//			simtest.Manager("widget/ours", widgetv1.AddToScheme, func(m ctrl.Manager) error {
//				r := &controller.WidgetReconciler{Client: m.GetClient(), Scheme: m.GetScheme()}
//				return r.SetupWithManager(m)
//			}))
//	}
//
// A failure prints the report of what was found, and ends with one line that finds it again. The same scenario,
// reconcilers and seed give the same result, and the same history hash, as the command on any machine.
//
// [NewWorld] is for tests that choose the order themselves: package simrapid draws orders and faults with rapid, [Fuzz]
// lets `go test -fuzz` choose them. [Explore] returns the result to judge, for Ginkgo and the matchers of package
// simgomega.
//
// [NewClient] is for unit tests without any exploration: a client of the simulated API server in place of
// controller-runtime's fake client.
//
// # Flags
//
// Each flag has a variable that does the same, because `go test ./... -sim.seed=7` fails in packages whose tests do not
// import this one:
//
//	-sim.seed=N        SIM_SEED      seed of the first random run
//	-sim.runs=N        SIM_RUNS      number of random runs after the sweep
//	-sim.for=TIME      SIM_FOR       explore for so much real time instead
//	-sim.replay=FILE   SIM_REPLAY    run this schedule only; also one line of JSON, as failures print it
//	-sim.report=DIR    SIM_REPORT    write reports and the schedules of findings there
//	-sim.v             SIM_V         log the report of scenarios that pass, too
//
// A flag beats its variable, and both beat what the test says. -short cuts the number of random runs by 5, unless a
// flag or a variable gives it. Relative names of files and folders are looked up in the module's root, where the
// printed lines are meant to be pasted, and then in the package's folder.
package simtest
