// Package scalein decides which pod of a workload goes first when the workload gets smaller, as costs in the
// annotation controller.kubernetes.io/pod-deletion-cost. The costs are right before a scale-in begins, and for each
// number of pods that go.
package scalein
