// Package reconcile reconciles WorkloadSpreads: it adopts pods, writes the status, and deletes pods that cannot be
// scheduled in their subset.
package reconcile
