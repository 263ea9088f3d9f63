package groups

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// PlaceOf returns the place of a pod: the value of a label, or its name in a StatefulSet; "" for
// none.
func PlaceOf(spec *limpetv1alpha1.BudgetGroups, pod metav1.Object) string {
	switch key, byLabel := label(spec); {
	case spec == nil:
		return ""
	case byLabel:
		return pod.GetLabels()[key]
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "StatefulSet" {
		return ""
	}
	ordinal, ok := strings.CutPrefix(pod.GetName(), owner.Name+"-")
	if _, err := strconv.ParseUint(ordinal, 10, 31); !ok || err != nil {
		return ""
	}
	return pod.GetName()
}

// Workload is what is known of a workload whose pods a budget counts.
type Workload struct {
	// Set is the name of a StatefulSet of Kubernetes; "" for any other workload. Its pods have
	// the ordinals from Start on.
	Set   string
	Start int32
	// Wants is how many pods it wants.
	Wants int32
	// Labels of the template of its pods.
	Labels map[string]string
	// Living is how many pods it has at each place, without those that terminate.
	Living map[string]int32
}

// MostPlaced is how many missing pods of a budget get a place of their own: a StatefulSet may ask for two
// billions. Those of further workloads may be anywhere.
const MostPlaced = 20_000

// Sizes are how many pods are wanted at each place.
type Sizes struct {
	At map[string]int32
	// Placed is how many of them ordinals tell.
	Placed int32
	// Anywhere is how many pods are wanted whose place is not known before they are there. Each
	// group counts them.
	Anywhere int32
}

// Add adds the pods that a workload wants.
//
// The place of a missing pod is known by its ordinal, or by the label of the template while all pods of
// the workload have its value.
func (s *Sizes) Add(spec *limpetv1alpha1.BudgetGroups, w Workload) {
	if place := placing(spec, w); place != nil && w.Wants <= MostPlaced-s.Placed {
		s.Placed += w.Wants
		for i := range w.Wants {
			s.At[place(int(w.Start)+int(i))]++
		}
		return
	}
	key, _ := label(spec)
	template, elsewhere, placed := w.Labels[key], int32(0), int32(0)
	for place, n := range w.Living {
		if place != "" {
			placed += n
		}
		if place != "" && place != template {
			elsewhere += n
		}
	}
	if template != "" && elsewhere == 0 || spec == nil {
		s.At[template] += w.Wants
		return
	}
	for place, n := range w.Living {
		if place != "" {
			s.At[place] += n
		}
	}
	s.Anywhere += max(w.Wants-placed, 0)
}

// placing returns the place of each ordinal of a workload; nil where ordinals tell no place.
func placing(spec *limpetv1alpha1.BudgetGroups, w Workload) func(ordinal int) string {
	name := func(ordinal int) string { return w.Set + "-" + strconv.Itoa(ordinal) }
	switch key, byLabel := label(spec); {
	case spec == nil || w.Set == "":
		return nil
	case !byLabel || key == appsv1.StatefulSetPodNameLabel:
		return name
	case key == appsv1.PodIndexLabel:
		return strconv.Itoa
	}
	return nil
}

// label returns the label whose values are places.
func label(spec *limpetv1alpha1.BudgetGroups) (key string, byLabel bool) {
	switch {
	case spec == nil:
		return "", false
	case spec.Sliding == nil:
		return spec.ByLabel, true
	}
	return spec.Sliding.Label, spec.Sliding.OrderBy == limpetv1alpha1.OrderLabel
}

// Sort sorts places in the order of a ring.
func Sort(places []string) { slices.SortFunc(places, compare) }

// compare compares numbers by their value: db-2 is before db-10.
func compare(a, b string) int {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	for at > 0 && digit(a[at-1]) {
		at--
	}
	x, y := number(a[at:]), number(b[at:])
	switch {
	case x == "" || y == "" || x == y:
		return strings.Compare(a, b)
	case len(x) != len(y):
		return len(x) - len(y)
	}
	return strings.Compare(x, y)
}

// number returns the number at the start of a text, without zeros before it but the last one; "" for none.
func number(text string) string {
	end := 0
	for end < len(text) && digit(text[end]) {
		end++
	}
	if short := strings.TrimLeft(text[:end], "0"); short != "" || end == 0 {
		return short
	}
	return "0"
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
