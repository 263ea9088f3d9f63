// Package reconcile writes the costs by which a ReplicaSet chooses the pods that go first. It is the only
// writer of costs in Limpet.
//
//	gather  the pods of a ReplicaSet, their domains, and the spread of the workload
//	plan    scalein.Plan
//	write   one patch for each pod, refused if the pod has changed since
package reconcile
