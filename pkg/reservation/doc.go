// Package reservation decides which pod may have an address, which pod may come back to it, and for how long. Every
// function is a pure function of its arguments: the package stores nothing and reads no clock.
//
// An address is in one of three states:
//
//	free     → attached   ADD
//	attached → reserved   DEL of an owner that asked for retention
//	attached → free       DEL of an owner that did not ask
//	reserved → attached   ADD of the same owner
//	reserved → free       deadline passed, released by hand, or reclaimed
//
// PlanAdd decides which addresses an ADD takes. PlanEnd decides whether the addresses of an attachment that ends are
// reserved. PlanShare decides which reservation makes room for another, and PlanRebuild makes a state out of what is
// left of a lost one. docs/design/0001-architecture.md has the ten rules that the plans keep.
package reservation
