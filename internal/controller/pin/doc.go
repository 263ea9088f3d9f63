// Package pin reconciles PersistentPodStates: it records where pods run, and brings
// rebuilt pods back to their nodes. The decisions are in pkg/pin.
//
//	Recorder   records where the pods of a target are Ready
//	Generator  makes the PersistentPodStates that workloads ask for by annotation
//	Nominator  nominates the recorded node of a gated pod, and opens its gate
//	Resyncer   makes workloads retry pods that were refused while no webhook answered
package pin
