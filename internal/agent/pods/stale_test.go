package pods_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/agent/pods"
	"github.com/limpet-io/limpet/internal/testenv"
)

// listOf waits until a source knows a number of pods, and has an error or none.
func listOf(t *testing.T, s source, clock *testingclock.FakeClock, step time.Duration, want int, failed bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		clock.Step(step)
		l, known, err := s.Pods(t.Context())
		if !known || len(l.Items) != want || (err != nil) != failed {
			return fmt.Errorf("known %t, %d pods, want %d: %w", known, len(l.Items), want, errors.Join(err))
		}
		return nil
	})
}

// TestFatPodsAreListed lists 13 pods of a tenant with 1.3 MiB of environment each.
func TestFatPodsAreListed(t *testing.T) {
	path, k := socket(t), &kubelet{}
	k.has(pod("web-0", "api", nil))
	serve(t, path, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, k) })
	clock := testingclock.NewFakeClock(time.Unix(1_800_000_000, 0))
	from := pods.NewKubelet(path, clock, logr.Discard())
	start(t, from)
	listOf(t, from, clock, 0, 1, false)
	all := []*corev1.Pod{pod("db-0", "api", nil)}
	for i := range 13 {
		p := pod(fmt.Sprint("fat-", i), "api", nil)
		p.Spec.Containers[0].Env[0].Value = strings.Repeat("x", 1300<<10)
		all = append(all, p)
	}
	k.has(all...)
	listOf(t, from, clock, 6*time.Second, len(all), false)
}

// TestAnOldListIsAnError ends the kubelet: its pods stay, and after a minute with an error.
func TestAnOldListIsAnError(t *testing.T) {
	path, k := socket(t), &kubelet{}
	k.has(pod("web-0", "api", nil), pod("web-1", "api", nil))
	stop := serve(t, path, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, k) })
	clock := testingclock.NewFakeClock(time.Unix(1_800_000_000, 0))
	from := pods.NewKubelet(path, clock, logr.Discard())
	start(t, from)
	listOf(t, from, clock, 0, 2, false)
	stop()
	listOf(t, from, clock, 6*time.Second, 2, true)
	static := &kubelet{}
	static.has(pod("proxy", "file", nil))
	stop = serve(t, path, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, static) })
	testenv.Eventually(t, func() error {
		clock.Step(6 * time.Second)
		_, _, err := from.Pods(t.Context())
		if err == nil || !strings.Contains(err.Error(), "shows no pod of the API server") {
			return fmt.Errorf("the error is %w", errors.Join(err))
		}
		return nil
	})
	stop()
	serve(t, path, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, k) })
	listOf(t, from, clock, 6*time.Second, 2, false)
}
