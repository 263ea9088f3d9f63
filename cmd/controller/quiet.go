package main

import (
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// quiet returns a logger for which steps of ordinary work are no errors:
//
//   - A conflict: another replica was first, and the replica that logged it tries again.
//   - What the library for certificates finds missing before it has made it, or before the
//     manifests are applied. It looks again at each change.
//   - A kind of workload that is not served any more. The PersistentPodStates report that.
//   - An event in a namespace that is being deleted.
func quiet(log logr.Logger) logr.Logger { return logr.New(quietSink{LogSink: log.GetSink()}) }

type quietSink struct {
	logr.LogSink
	certificates bool // what is logged comes from the library for certificates
}

// certificateLogger is the name that the library for certificates logs under.
const certificateLogger = "cert-rotation"

// metadataType is how client-go names the objects of a kind that users have named.
const metadataType = "*v1.PartialObjectMetadata"

// Error logs an error, or what is none.
func (s quietSink) Error(err error, message string, values ...any) {
	missing, unformed := apierrors.IsNotFound(err), err != nil && strings.Contains(err.Error(), "not well-formed")
	ending := apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	if ending || apierrors.IsConflict(err) || missing && slices.Contains(values, any(metadataType)) || s.certificates && (missing || unformed) {
		s.Info(0, message, append([]any{"cause", err.Error()}, values...)...)
		return
	}
	s.LogSink.Error(err, message, values...)
}

// WithValues returns a sink that adds values to each line.
func (s quietSink) WithValues(values ...any) logr.LogSink {
	s.LogSink = s.LogSink.WithValues(values...)
	return s
}

// WithName returns a sink with a further name.
func (s quietSink) WithName(name string) logr.LogSink {
	s.LogSink, s.certificates = s.LogSink.WithName(name), s.certificates || name == certificateLogger
	return s
}

// WithCallDepth returns a sink that names a caller further up.
func (s quietSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		s.LogSink = deep.WithCallDepth(depth)
	}
	return s
}
