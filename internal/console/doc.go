// Package console answers the questions of kubectl-limpet from the objects of the API:
//
//	Status      what is installed, how full the pools are, and what needs attention
//	History     where one pod ran, with which addresses, and why these were kept or lost
//	PlanDrain   what becomes of the pods of nodes that are drained, and which budgets wait
//	Audit       which addresses contradict each other
//	Eviction    whether one pod may be evicted now, as the API server answers
//	Lost        which pods did not return to their places, and what helps
//	Versions    which version of each program runs where
//	PlanRelease which reservations a user gives up; Ask marks them
//	Trial       whether a rebuilt pod keeps node and address; Run makes a namespace for that, and removes it
//	Join        lets the controller read the budgets of another cluster; Leave and DeclareGone end that
//
// Ask, Run, Join, Leave and DeclareGone write. All others but Eviction are pure functions from facts to a report, which is printed
// as a table, or as JSON or YAML with the names of its fields.
package console
