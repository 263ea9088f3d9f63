// Package budget answers one question: may this pod go now?
//
// Plan decides about one request and one pod, from facts about all budgets that cover the
// pod. Count gives the numbers that a budget shows in its status. Both count alike. All
// functions are pure: the time is an argument, and no clock, cache or API is read.
package budget
