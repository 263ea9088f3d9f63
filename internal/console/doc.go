// Package console answers the questions of kubectl-limpet from the objects of the API:
//
//	Status      what is installed, how full the pools are, and what needs attention
//	History     where one pod ran, with which addresses, and why these were kept or lost
//	PlanDrain   what becomes of the pods of nodes that are drained, and which budgets wait
//	Audit       which addresses contradict each other
//	Eviction    whether one pod may be evicted now, as the API server answers
//	PlanRelease which reservations a user gives up; Ask marks them, and nothing else here writes
//
// All but Eviction and Ask are pure functions from facts to a report. A report is printed as a table, or
// as JSON or YAML with the names of its fields.
package console
