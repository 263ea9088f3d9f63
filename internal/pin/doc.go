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
//	Proven    which holders of its addresses may overrule the record
//	Homeward, AtAddressHome  send a pod that is created home
//	Restored  by which of these records a pod returns
//	Plan      what a pod that is being created should get
//	PlanGate  whether to nominate the node of a gated pod, and to open its gate
//	PlanPlace whether a pod waits for its required place or is released
//
// A pod has several nodes, each with its word:
//
//	recorded node  where the pod of its name was Ready last
//	holder         shows in IPReservations that it holds addresses of the pod; Proven, if the controller saw the pod there
//	home           a node that the pod left for a cause that passes, with its address; by limpet.dev/return-after it goes
//	               back, either deleted for that (RecordInput.Homeward), or when it is created (Homeward)
//	address home   of a pod whose address follows: the holder whose ranges have the address
//	homes          the recorded node, the home and the newer holder: where a pod behind the gate may ask to go
package pin
