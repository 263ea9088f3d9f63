package cluster

import (
	"crypto/sha256"
	"runtime"
	"strings"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
)

// shape is what packed pods of one template share.
type shape struct {
	pod   corev1.Pod // without what a packed pod has itself
	named bool       // whether labels follow from the name of the pod
	notes string     // the annotations of the first pod, by writeNotes
}

// shapeKey is a hash of a shape. Users choose what their pods say, so that the hash must resist
// them.
type shapeKey [sha256.Size]byte

// shapes finds the shape of a pod. A shape that no pod has is freed.
type shapes struct {
	mu    sync.Mutex
	known map[shapeKey]weak.Pointer[shape]
}

// of returns the shape of what is left of a pod.
func (s *shapes) of(rest *corev1.Pod, notes string) (*shape, bool) {
	text, err := rest.Marshal()
	if err != nil {
		return nil, false
	}
	key := shapeKey(sha256.Sum256(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[key].Value(); known != nil {
		return known, true
	}
	made := &shape{pod: *rest, named: hasNamed(rest.Labels), notes: notes}
	if s.known == nil {
		s.known = map[shapeKey]weak.Pointer[shape]{}
	}
	s.known[key] = weak.Make(made)
	runtime.AddCleanup(made, s.forget, key)
	return made, true
}

// forget drops a shape that was freed, unless the same one was made again.
func (s *shapes) forget(key shapeKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key].Value() == nil {
		delete(s.known, key)
	}
}

// hasNamed reports whether a label stands for the name of a pod.
func hasNamed(labels map[string]string) bool {
	for _, value := range labels {
		if strings.HasPrefix(value, "\x00") {
			return true
		}
	}
	return false
}

// mostFull is how many packed pods the cache also holds as they are: those that were used last. A
// cluster with fewer pods is as fast as one whose pods are not packed.
const mostFull = 16384

// lately is the packed pods that were used last, in a ring.
type lately struct {
	mu   sync.Mutex
	ring []*packedPod
	next int
}

// full returns the pod of an entry of the store, which may be packed.
func (l *lately) full(o any) any {
	p, ok := o.(*packedPod)
	if !ok {
		return o
	}
	if pod := p.full.Load(); pod != nil {
		return pod
	}
	pod := p.unpack()
	l.keep(p, pod)
	return pod
}

// keep holds a pod as it is, in the place of another one.
func (l *lately) keep(p *packedPod, pod *corev1.Pod) {
	p.full.Store(pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < mostFull {
		l.ring = append(l.ring, p)
		return
	}
	l.ring[l.next].full.Store(nil)
	l.ring[l.next] = p
	l.next = (l.next + 1) % len(l.ring)
}

// all returns the pods of many entries. Those of a longer list than the ring are not held: they
// would drive out each other.
func (l *lately) all(entries []any) []any {
	pods := make([]any, len(entries))
	for i, o := range entries {
		p, ok := o.(*packedPod)
		if !ok || len(entries) <= mostFull {
			pods[i] = l.full(o)
			continue
		}
		pod := p.full.Load()
		if pod == nil {
			pod = p.unpack()
		}
		pods[i] = pod
	}
	return pods
}
