// Package pin decides where a rebuilt pod may return to, from the record of where its
// predecessor was Ready.
//
// It holds every decision about PersistentPodStates, each a pure function from facts
// to data, called alike by webhook and reconciler:
//
//	Generate  which PersistentPodState a workload's annotations ask for
//	Validate  whether a PersistentPodState makes sense
//	Choose    which one is in force when several have the same target
//	Record    what to remember of a workload's pods
//	Judge     whether a pod that came back was kept, and if not, why
//	NewerHolder, RestoreRecord  where a pod was whose record was lost
//	Plan      what a pod that is being created should get
package pin
