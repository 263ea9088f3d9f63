// Package ipam decides which address comes next: ranges and range sets as
// host-local knows them, and the order in which their addresses are tried. It
// reads who holds what through a one-method view and stores nothing.
package ipam
