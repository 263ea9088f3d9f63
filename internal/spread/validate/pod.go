package validate

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/platform/review"
)

// mostProblems bounds what a refusal says of one patch.
const mostProblems = 8

// judgePod refuses a patch whose pod the API server would refuse, as far as the API server refuses it
// in every version and what a patch adds is at fault. What was wrong without the patch is left out.
// anyVolume is for a workload that is not known: its pods may have any volume.
func judgePod(before, after *corev1.Pod, anyVolume bool, raw []byte, path *field.Path) field.ErrorList {
	old := map[string]bool{}
	for _, problem := range problemsOf(before, anyVolume) {
		old[problem] = true
	}
	var errs field.ErrorList
	for _, problem := range problemsOf(after, anyVolume) {
		if !old[problem] && len(errs) < mostProblems {
			old[problem] = true
			errs = append(errs, field.Invalid(path, review.Short(string(raw)), "makes pods that the API server refuses: "+known(raw, problem)))
		}
	}
	return errs
}

// quoted is a name in a problem.
var quoted = regexp.MustCompile(`"[^"]*"`)

// known leaves out names that the patch does not have. They are from the workload, which the client need not be allowed to
// read: any program that reaches the port may ask.
func known(raw []byte, problem string) string {
	return quoted.ReplaceAllStringFunc(problem, func(name string) string {
		if bytes.Contains(raw, []byte(strings.Trim(name, `"`))) {
			return name
		}
		return "of the workload"
	})
}

// problemsOf tells what is wrong with a pod.
func problemsOf(pod *corev1.Pod, anyVolume bool) []string {
	out := texts(metavalidation.ValidateLabels(pod.Labels, field.NewPath("metadata", "labels")))
	out = append(out, texts(apivalidation.ValidateAnnotations(pod.Annotations, field.NewPath("metadata", "annotations")))...)
	for _, name := range pod.Finalizers {
		out = append(out, texts(apivalidation.ValidateFinalizerName(name, field.NewPath("metadata", "finalizers")))...)
	}
	spec := field.NewPath("spec")
	out = append(out, texts(metavalidation.ValidateLabels(pod.Spec.NodeSelector, spec.Child("nodeSelector")))...)
	for i := range pod.Spec.Tolerations {
		out = append(out, texts(judgeToleration(&pod.Spec.Tolerations[i], spec.Child("tolerations").Key(review.Short(pod.Spec.Tolerations[i].Key))))...)
	}
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil && (*s < 1 || *s > math.MaxInt32) {
		out = append(out, fmt.Sprintf("spec.activeDeadlineSeconds is %d and must be from 1 to %d", *s, math.MaxInt32))
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		out = append(out, names("volume", v.Name, validation.IsDNS1123Label)...)
	}
	seen := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if seen[c.Name] {
			out = append(out, fmt.Sprintf("two containers have the name %q", review.Short(c.Name)))
		}
		seen[c.Name] = true
		if !anyVolume {
			out = append(out, problemsOfVolumes(&c, volumes)...)
		}
		out = append(out, problemsOfContainer(&c)...)
	}
	return out
}

// problemsOfVolumes tells which volumes of a container the pod does not have.
func problemsOfVolumes(c *corev1.Container, volumes map[string]bool) (out []string) {
	at := fmt.Sprintf("container %q: ", review.Short(c.Name))
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			out = append(out, fmt.Sprintf("%svolumeMounts name the volume %q, which the pod does not have", at, review.Short(m.Name)))
		}
	}
	for _, d := range c.VolumeDevices {
		if !volumes[d.Name] {
			out = append(out, fmt.Sprintf("%svolumeDevices name the volume %q, which the pod does not have", at, review.Short(d.Name)))
		}
	}
	return out
}

func problemsOfContainer(c *corev1.Container) []string {
	out := names("container", c.Name, validation.IsDNS1123Label)
	at := fmt.Sprintf("container %q: ", review.Short(c.Name))
	ports := map[string]bool{}
	for _, p := range c.Ports {
		if p.ContainerPort < 1 || p.ContainerPort > math.MaxUint16 || p.HostPort < 0 || p.HostPort > math.MaxUint16 {
			out = append(out, fmt.Sprintf("%sports %d and %d of the host must be from 1 to %d", at, p.ContainerPort, p.HostPort, math.MaxUint16))
		}
		if p.Name == "" {
			continue
		}
		if ports[p.Name] {
			out = append(out, fmt.Sprintf("%stwo ports have the name %q", at, review.Short(p.Name)))
		}
		ports[p.Name] = true
		out = append(out, names(fmt.Sprintf("port of container %q", review.Short(c.Name)), p.Name, validation.IsValidPortName)...)
	}
	for kind, probe := range map[string]*corev1.Probe{
		"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe,
	} {
		if probe != nil && min(probe.InitialDelaySeconds, probe.TimeoutSeconds, probe.PeriodSeconds, probe.SuccessThreshold, probe.FailureThreshold) < 0 {
			out = append(out, at+kind+" has a negative number")
		}
	}
	return append(out, problemsOfResources(at, c.Resources)...)
}

// problemsOfResources tells of negative amounts, and of requests above their limits.
func problemsOfResources(at string, r corev1.ResourceRequirements) (out []string) {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if amount := list[name]; amount.Sign() < 0 {
				out = append(out, fmt.Sprintf("%sresource %q is negative", at, review.Short(string(name))))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		if limit, limited := r.Limits[name]; limited && request.Cmp(limit) > 0 {
			out = append(out, fmt.Sprintf("%sthe request of %q is above its limit", at, review.Short(string(name))))
		}
	}
	return out
}

// names tells why a name is none.
func names(what, name string, judge func(string) []string) []string {
	if problems := judge(name); len(problems) > 0 {
		return []string{fmt.Sprintf("the name %q of a %s: %s", review.Short(name), what, strings.Join(problems, "; "))}
	}
	return nil
}

func texts(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, review.Short(err.Error()))
	}
	return out
}
