package creation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// stub is a planner that plans and commits what a test says, and notes both in a log.
type stub struct {
	name        string
	plan        creation.Plan
	adds        creation.Addition
	err, refuse error // of the plan, of the commit
	log         *[]string
}

func (s stub) Name() string { return s.name }

func (s stub) Plan(_ context.Context, facts creation.Facts) (creation.Plan, error) {
	*s.log = append(*s.log, "plan "+s.name+" after node "+facts.Node)
	plan := s.plan
	plan.Commit = func(_ context.Context, dryRun bool) (creation.Addition, error) {
		step := "commit "
		if dryRun {
			step = "look "
		}
		*s.log = append(*s.log, step+s.name+" under "+string(facts.UID))
		return s.adds, s.refuse
	}
	return plan, s.err
}

func annotate(value string) creation.Plan {
	return creation.Plan{Patch: podpatch.Patch{Annotations: map[string]string{"k": value}}}
}

func request(t *testing.T, pod testenv.Pod, options *metav1.CreateOptions) admission.Request {
	t.Helper()
	raw, err := json.Marshal(pod.Pod)
	if err != nil {
		t.Fatal(err)
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "r1", Namespace: "default", Object: runtime.RawExtension{Raw: raw},
	}}
	if options != nil {
		if req.Options.Raw, err = json.Marshal(options); err != nil {
			t.Fatal(err)
		}
	}
	return req
}

func TestStagesOfACreation(t *testing.T) {
	failure := errors.New("no answer")
	set := testenv.AStatefulSet("web", 1).StatefulSet
	plain := testenv.APod("web-0").OwnedBy(set)
	retained := testenv.APod("web-0").OwnedBy(set).With(reservation.RetainAnnotation, "10")
	pinned := annotate("1")
	pinned.Node = "n1"
	gated := podpatch.Patch{Gates: []string{"g"}}
	plans := []string{"plan a after node ", "plan b after node n1"}
	cases := map[string]struct {
		pod         testenv.Pod
		dryRun      *bool
		options     *metav1.CreateOptions
		a, b        stub
		wantLog     []string
		wantAllowed bool
		wantPatches int
		wantWarning string
	}{
		"all agree": {
			pod: plain, a: stub{plan: creation.Plan{Node: "n1"}}, b: stub{plan: annotate("1")},
			wantLog:     append(slices.Clone(plans), "commit a under r1", "commit b under r1"),
			wantAllowed: true, wantPatches: 1,
		},
		"a dry run by the request": {
			pod: plain, dryRun: new(true), a: stub{plan: creation.Plan{Node: "n1"}}, b: stub{plan: annotate("1")},
			wantLog:     append(slices.Clone(plans), "look a under r1", "look b under r1"),
			wantAllowed: true, wantPatches: 1,
		},
		"a dry run by the options": {
			pod: plain, options: &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}},
			a: stub{plan: creation.Plan{Node: "n1"}}, b: stub{plan: annotate("1")},
			wantLog:     append(slices.Clone(plans), "look a under r1", "look b under r1"),
			wantAllowed: true, wantPatches: 1,
		},
		"options that say nothing of a dry run": {
			pod: plain, options: &metav1.CreateOptions{}, a: stub{plan: creation.Plan{Node: "n1"}}, b: stub{},
			wantLog:     append(slices.Clone(plans), "commit a under r1", "commit b under r1"),
			wantAllowed: true,
		},
		"a pod that retains is refused when a plan fails": {
			pod: retained, a: stub{plan: creation.Plan{Node: "n1"}}, b: stub{err: failure}, wantLog: plans,
		},
		"any other pod is created without the plan that fails": {
			pod: plain, a: stub{plan: creation.Plan{Node: "n1"}}, b: stub{err: failure},
			wantLog:     append(slices.Clone(plans), "commit a under r1"),
			wantAllowed: true, wantWarning: "created without b",
		},
		"a contradiction drops the later plan": {
			pod: plain, a: stub{plan: annotate("1")}, b: stub{plan: annotate("2")},
			wantLog:     []string{"plan a after node ", "plan b after node ", "commit a under r1"},
			wantAllowed: true, wantPatches: 1, wantWarning: "contradict",
		},
		"a contradiction refuses a pod that retains": {
			pod: retained, a: stub{plan: annotate("1")}, b: stub{plan: annotate("2")},
			wantLog: []string{"plan a after node ", "plan b after node "},
		},
		"a commit that fails refuses the pod and ends the commits": {
			pod: plain, a: stub{plan: creation.Plan{Node: "n1"}, refuse: failure}, b: stub{},
			wantLog: append(slices.Clone(plans), "commit a under r1"),
		},
		"a plan that is essential refuses the pod when it fails": {
			pod: plain, a: stub{plan: creation.Plan{Node: "n1"}}, b: stub{err: fmt.Errorf("%w: %w", creation.ErrEssential, failure)}, wantLog: plans,
		},
		"a commit adds to the plan": {
			pod: plain, a: stub{plan: annotate("1")}, b: stub{adds: creation.Addition{Patch: gated, Warnings: []string{"said"}}},
			wantLog:     []string{"plan a after node ", "plan b after node ", "commit a under r1", "commit b under r1"},
			wantAllowed: true, wantPatches: 2, wantWarning: "said",
		},
		"a commit overrules an earlier plan": {
			pod: plain, a: stub{plan: annotate("1")}, b: stub{adds: creation.Addition{Patch: gated, Overrules: "a"}},
			wantLog:     []string{"plan a after node ", "plan b after node ", "commit a under r1", "commit b under r1"},
			wantAllowed: true, wantPatches: 1,
		},
		"a commit that contradicts an earlier plan overrules it": {
			pod: plain, a: stub{plan: pinned}, b: stub{adds: creation.Addition{Patch: annotate("2").Patch}},
			wantLog:     append(slices.Clone(plans), "commit a under r1", "commit b under r1"),
			wantAllowed: true, wantPatches: 1,
		},
		"a pod that concerns no planner is not planned": {pod: testenv.APod("alone"), wantAllowed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var log []string
			tc.a.name, tc.a.log, tc.b.name, tc.b.log = "a", &log, "b", &log
			creation := &creation.Handler{Planners: []creation.Planner{tc.a, tc.b}, MaxReservation: time.Hour, Clock: clock.RealClock{}}
			req := request(t, tc.pod, tc.options)
			req.DryRun = tc.dryRun
			answer := creation.Handle(t.Context(), req)
			if !slices.Equal(log, tc.wantLog) {
				t.Errorf("stages %q, want %q", log, tc.wantLog)
			}
			if answer.Allowed != tc.wantAllowed || len(answer.Patches) != tc.wantPatches {
				t.Errorf("allowed %t with patches %v, want %t with %d", answer.Allowed, answer.Patches, tc.wantAllowed, tc.wantPatches)
			}
			if !tc.wantAllowed && answer.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("code %d, want that the owner tries again", answer.Result.Code)
			}
			if said := strings.Join(answer.Warnings, "; "); !strings.Contains(said, tc.wantWarning) || said != "" && tc.wantWarning == "" {
				t.Errorf("warnings %q, want %q", said, tc.wantWarning)
			}
		})
	}
}
