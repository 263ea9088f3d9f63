// Package spread decides in which subset of its WorkloadSpread a pod runs.
//
//	Of      what the object of a spread says, for a workload of some size
//	Choose  the subset of a pod that is being created, from the slots that are free
//	Assign  the subsets of all ordinals of a StatefulSet
//	Adopt   the subset of a pod that was there before its spread
//	Patch   what a subset adds to a pod
//	Adapt   which subsets are skipped, and which pods must be created again
//
// All of it is pure. The webhook and the reconciler call the same functions.
package spread
