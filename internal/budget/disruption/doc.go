// Package disruption answers for the cluster whether a pod may go now. It gathers the facts
// about the pod and all budgets that cover it, asks package budget, and enters the answer
// into the book. The webhook of the guards and the room that deletes pods both ask here.
package disruption
