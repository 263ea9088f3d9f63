package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errNoEnd = errors.New("the watch ended before all pods were sent")

// watchAsOthers reads all pods once, by a watch like those of the scheduler and of the controller manager, which each
// cluster has. The heap of the API server has then the size that it has in a cluster: a first watch of all pods costs it garbage
// collections. The API server ends a watch that is slower than the events, and a client tries again.
func (b *bench) watchAsOthers(ctx context.Context) error {
	b.progress("watch all pods once, as a scheduler does")
	stream, err := b.raw.Get().AbsPath("/api/v1/pods").Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("sendInitialEvents", "true").Param("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan)).
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch").Stream(ctx)
	if err != nil {
		return fmt.Errorf("watch all pods: %w", err)
	}
	defer func() { _ = stream.Close() }() // what matters was read
	return skipPast(stream, []byte(metav1.InitialEventsAnnotationKey))
}

// skipPast reads until a text has come.
func skipPast(from io.Reader, text []byte) error {
	window, last := make([]byte, 1<<20), 0 // what a text may have begun in is kept
	for {
		n, err := from.Read(window[last:])
		if bytes.Contains(window[:last+n], text) {
			return nil
		}
		if err != nil {
			return errors.Join(errNoEnd, err)
		}
		end := last + n
		last = copy(window, window[max(0, end-len(text)+1):end])
	}
}
