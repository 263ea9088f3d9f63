// Package budget answers one question: may this pod go now?
//
//	RulesOf   what a budget's annotations and operations say
//	Covers    whether a budget counts a pod
//	PodOf     whether a pod is available
//	VectorOf  in which way a pod goes, from who asks and what is known of the pod
//	Count     the numbers that a budget shows in its status
//	Plan      the answer to one request for one pod, from all budgets of the pod
//
// Count and Plan read the same facts. All functions are pure: the time is an argument, and
// no clock, cache or API is read.
package budget
