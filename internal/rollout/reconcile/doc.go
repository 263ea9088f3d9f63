// Package reconcile opens the gates of StatefulSets that grow step by step, and writes their partitions.
//
//	Opener       opens the gates of the pods of a StatefulSet, as many as its limit allows
//	Unlimited    opens the same gate of pods that no StatefulSet controls
//	Partitioner  writes the partition that a percentage means
//
// All run on the leader alone: a gate stays closed while the leader changes, so that the limit holds.
package reconcile
