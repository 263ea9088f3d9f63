// Package reconcile reconciles PodUnavailableBudgets. The decisions are in internal/budget.
//
//	Reconciler  shows the numbers of a budget, removes entries of its book that have served,
//	            and reports refusals and losses
//	Labeler     labels the namespaces whose pods the guard is asked about
//	Prober      learns whether the guard is called for a namespace
package reconcile
