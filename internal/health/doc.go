// Package health decides whether a program must be restarted. It is pure: callers observe
// the parts of the program.
package health
