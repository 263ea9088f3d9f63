// Package reconcile reconciles PersistentPodStates: it records where pods run, and brings
// rebuilt pods back to their nodes. The decisions are in internal/pin.
//
//	Recorder   records where the pods of a target are Ready
//	Generator  makes the PersistentPodStates that workloads ask for by annotation
//	Nominator  nominates the recorded node of a gated pod, and opens its gate
//	Aggregator     gathers what happens to addresses into few events
//	Resyncer   makes a workload create its pods again, after the API server refused them
//	           because no webhook answered
package reconcile
