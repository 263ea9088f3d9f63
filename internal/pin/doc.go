// Package pin decides where a rebuilt pod may return to, from the record of where its
// predecessor was Ready.
//
// It holds the decisions about PersistentPodStates, each a pure function from facts to
// data. The webhook and the reconcilers call the same functions, among them:
//
//	Generate  which PersistentPodState a workload's annotations ask for
//	Validate  whether a PersistentPodState makes sense
//	Choose    which one is in force when several have the same target
//	Record    what to remember of a workload's pods
//	Judge     whether a pod that came back was kept, and if not, why
//	NewerHolder, RestoreRecord  find the node of a pod if its record was lost
//	Plan      what a pod that is being created should get
//	PlanGate  whether to nominate the node of a gated pod, and to open its gate
//	PlanPlace whether a pod waits for its required place or is released
package pin
