// Package workload holds what every feature says about workloads and their pods.
//
//	Target   a workload, identified without its API version
//	Owner    the object that controls another one: pod → ReplicaSet → Deployment
//	Kinds    the kinds of workload whose pods come back under their names
//	Desired  how many pods a workload wants, and which names they have
//
// All of it is pure. The objects are read by internal/platform/cluster and internal/platform/workloads.
package workload
