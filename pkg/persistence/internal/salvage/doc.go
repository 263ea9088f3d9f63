// Package salvage reads damaged bbolt files. Every read checks each page by itself and leaves out what is broken,
// because bbolt itself panics, faults on its memory map or ends the process on a damaged page.
//
// Faults checks all pages of a file, damaged or not, in little memory.
//
// The package knows the layout of bbolt's pages and nothing of the records in them. The layout is not part of
// bbolt's API: layout_test.go names the version whose layout was checked.
package salvage
