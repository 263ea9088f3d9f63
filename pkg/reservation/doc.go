// Package reservation decides which pod may have an address, which pod may come back to it, and for how long. Every
// function is a pure function of its arguments: the package stores nothing and reads no clock.
//
// An address is in one of three states:
//
//	        ADD                      DEL, owner asked for retention
//	free ─────────► attached ────────────────────────────────► reserved
//	 ▲                 │  ▲                                       │  │
//	 │   DEL, no request│  └───────── ADD of the same owner ───────┘  │
//	 └─────────────────┘                                             │
//	 └────────── deadline passed · released by hand · reclaimed ◄────┘
//
// PlanAdd decides which addresses an ADD takes. PlanEnd decides whether the addresses of an attachment that ends are
// reserved. PlanShare decides which reservation makes room for another, and PlanRebuild makes a state out of what is
// left of a lost one. docs/design/0001-architecture.md has the ten rules that the plans keep.
package reservation
