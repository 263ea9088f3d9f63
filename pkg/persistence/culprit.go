package persistence

import (
	"runtime"
	"strings"
)

// fileAtFault reports whether a panic comes from the file: a fault on the memory map, an index or a length that the file
// may have given, or bbolt. Any other panic is an error of the program, which no rebuild of the state mends. It must be
// called by the deferred function that recovered.
func fileAtFault(p any) bool {
	if _, fault := p.(interface{ Addr() uintptr }); fault { // not for a nil pointer
		return true
	}
	if err, is := p.(runtime.Error); is && strings.Contains(err.Error(), "out of range") {
		return true
	}
	return strings.HasPrefix(culprit(), "go.etcd.io/bbolt")
}

// culprit returns the function that panicked, or the caller of the standard library if that panicked; "" when there is
// none.
func culprit() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	panicked := false
	for {
		f, more := frames.Next()
		if panicked && !standard(f.Function) {
			return f.Function
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// standard reports whether a function is of the standard library: its import path begins without a domain.
func standard(function string) bool {
	domain, _, inPath := strings.Cut(function, "/")
	return !strings.HasPrefix(function, "main.") && (!inPath || !strings.Contains(domain, "."))
}
