// Package peers reads the budgets of other namespaces and clusters. It writes nothing there.
package peers
