// Package rollout decides how many pods of a StatefulSet may start at a time, and how many are updated.
//
//	PartitionOf  the partition that a percentage means
//	ScaleOut     the pods whose gates are opened
package rollout
