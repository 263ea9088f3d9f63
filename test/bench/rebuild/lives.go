package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// life is a pod from its first sight to its deletion. A time is zero until a watch has shown the event.
type life struct {
	uid            types.UID
	node, ip, ips  string
	ready, deleted time.Time
}

// lives holds all pods that a StatefulSet has had, by name, the earliest first. The zero value is ready to use.
type lives struct {
	mutex sync.Mutex
	of    map[string][]life
}

var errWatchEnded = errors.New("watch of the pods ended")

// follow notes the pods of the StatefulSet until ctx or the watch ends.
func (l *lives) follow(ctx context.Context, b *bed.Bed, namespace string) error {
	w, err := b.Client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + set})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			l.note(pod, event.Type == watch.Deleted, time.Now())
		}
	}
	return errWatchEnded
}

func (l *lives) note(pod *corev1.Pod, gone bool, now time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.of == nil {
		l.of = map[string][]life{}
	}
	all := l.of[pod.Name]
	if len(all) == 0 || all[len(all)-1].uid != pod.UID {
		all = append(all, life{uid: pod.UID})
		l.of[pod.Name] = all
	}
	p := &all[len(all)-1]
	if p.deleted.IsZero() && (gone || pod.DeletionTimestamp != nil) {
		p.deleted = now
	}
	if p.ready.IsZero() && p.deleted.IsZero() && bed.Ready(pod) {
		p.ready, p.node, p.ip, p.ips = now, pod.Spec.NodeName, pod.Status.PodIP, fmt.Sprint(pod.Status.PodIPs)
	}
}

// current returns the last pod of a name, and whether it is Ready.
func (l *lives) current(name string) (life, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	all := l.of[name]
	if len(all) == 0 {
		return life{}, false
	}
	last := all[len(all)-1]
	return last, !last.ready.IsZero() && last.deleted.IsZero()
}

// after returns a pod as it was last seen, and its successor.
func (l *lives) after(name string, uid types.UID) (pod, successor life) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	all := l.of[name]
	i := slices.IndexFunc(all, func(p life) bool { return p.uid == uid })
	return all[i], all[i+1]
}
