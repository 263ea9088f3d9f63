// Package reservation holds the words of Limpet and the legal moves between them: who may hold an address, who may come back to it, and for how
// long. It stores nothing and reads no clock; every function here is a pure function of its arguments.
//
// An address lives in three states:
//
//	        ADD                      DEL, owner asked for retention
//	free ─────────► attached ────────────────────────────────► reserved
//	 ▲                 │  ▲                                       │  │
//	 │   DEL, no wish  │  └───────── ADD of the same owner ───────┘  │
//	 └─────────────────┘                                             │
//	 └────────── deadline passed · released by hand · reclaimed ◄────┘
//
// PlanAdd decides what an ADD may take, PlanEnd what becomes of the addresses
// of an attachment that ends. The ten rules they keep are in
// docs/design/0001-architecture.md.
package reservation
