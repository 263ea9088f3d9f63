// Package groups divides the pods of a budget into groups: one for each value of a label, or the
// windows of a row or a ring of places. All of it is pure.
package groups
