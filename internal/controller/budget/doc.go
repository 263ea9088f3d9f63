// Package budget reconciles PodUnavailableBudgets: their numbers, conditions and events, the
// entries of their books, and the label of their namespaces.
package budget
