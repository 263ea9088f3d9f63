package validate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
)

// judgedByServer is what the API server says of a pod to which a patch was applied as the webhook of new pods
// applies it: to the pod with its defaults.
func judgedByServer(t *testing.T, pod *corev1.Pod, patch string) error {
	t.Helper()
	created := pod.DeepCopy()
	if err := env.Client.Create(t.Context(), created, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: created.Labels}, Spec: created.Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := podpatch.Apply(before, []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	after := &corev1.Pod{}
	if err := json.Unmarshal(text, after); err != nil {
		t.Fatal(err)
	}
	return env.Client.Create(t.Context(), after, client.DryRunAll)
}

// A refusal names nothing of the workload that the patch does not name: any program that reaches the port may ask about
// any workload.
func TestARefusalNamesNothingOfTheWorkload(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns).StatefulSet
	template := &set.Spec.Template.Spec
	template.Containers[0].Name = "secret-main"
	template.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/secret": resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("1")}
	template.InitContainers = []corev1.Container{{Name: "secret-init", Image: "x", Resources: template.Containers[0].Resources}}
	template.Volumes = []corev1.Volume{{Name: "secret-volume", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	template.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "secret-volume", MountPath: "/data"}}
	env.Create(t, set)
	for name, text := range map[string]string{
		"a container without an image": `{"spec":{"containers":[{"name":"x"}]}}`,
		"no volumes":                   `{"spec":{"volumes":[{"$patch":"replace"}]}}`,
		"null volumes":                 `{"spec":{"volumes":null}}`,
		"no containers":                `{"spec":{"containers":[{"$patch":"replace"}]}}`,
		"other volumes":                `{"spec":{"volumes":[{"$patch":"replace"},{"name":"x","emptyDir":{}}],"containers":[{"name":"y"}]}}`,
	} {
		err := env.Client.Create(t.Context(), ofSubsets(ns, "web", target("apps/v1", "StatefulSet"), patch(text)), client.DryRunAll)
		if !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want a refusal without names of the workload", name, err)
		}
	}
}

// A patch that makes pods which the API server refuses is refused itself, if the workload exists. The
// API server judges the same pods beside it.
func TestPatchesThatMakeNoPodAreRefused(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns).StatefulSet
	template := &set.Spec.Template.Spec
	template.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	template.Containers[0].Name = "main"
	template.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	template.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}}
	env.Create(t, set)
	pod := testenv.APod("web-0").In(ns).Pod
	pod.Labels, pod.Spec = set.Spec.Template.Labels, *set.Spec.Template.Spec.DeepCopy()
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-web-0"},
	}})
	main := func(fields string) string { return fmt.Sprintf(`{"spec":{"containers":[{"name":"main",%s}]}}`, fields) }
	for name, tc := range map[string]struct{ patch, says string }{
		"a mount of no volume":            {main(`"volumeMounts":[{"name":"dta","mountPath":"/x"}]`), `the volume "dta", which the pod does not have`},
		"a removed volume with a mount":   {`{"spec":{"volumes":[{"name":"data","$patch":"delete"}]}}`, `the volume "data"`},
		"a device of no volume":           {main(`"volumeDevices":[{"name":"disk","devicePath":"/dev/x"}]`), `the volume "disk"`},
		"limits below the requests":       {main(`"resources":{"limits":{"cpu":"500m"}}`), `the request of "cpu" is above its limit`},
		"a request above its limit":       {main(`"resources":{"requests":{"cpu":"2"}}`), `the request of "cpu" is above its limit`},
		"a negative request":              {main(`"resources":{"requests":{"memory":"-1"}}`), `resource "memory" is negative`},
		"an init container of its name":   {`{"spec":{"initContainers":[{"name":"main","image":"x"}]}}`, `two containers have the name "main"`},
		"a container whose name is none":  {`{"spec":{"containers":[{"name":"A_B","image":"x"}]}}`, `"A_B" of a container`},
		"a volume whose name is none":     {`{"spec":{"volumes":[{"name":"A_B","emptyDir":{}}]}}`, `"A_B" of a volume`},
		"two ports of one name":           {main(`"ports":[{"containerPort":80,"name":"web"},{"containerPort":81,"name":"web"}]`), `two ports have the name "web"`},
		"a port that is none":             {main(`"ports":[{"containerPort":70000}]`), "ports 70000"},
		"a port of the host that is none": {main(`"ports":[{"containerPort":80,"hostPort":-1}]`), "-1 of the host"},
		"a port whose name is none":       {main(`"ports":[{"containerPort":80,"name":"-"}]`), `"-" of a port of container "main"`},
		"a probe with a negative number":  {main(`"livenessProbe":{"exec":{"command":["x"]},"periodSeconds":-1}`), "livenessProbe has a negative number"},
		"a deadline of 0":                 {`{"spec":{"activeDeadlineSeconds":0}}`, "spec.activeDeadlineSeconds is 0"},
		"a label that is none":            {`{"metadata":{"labels":{"a b":"c"}}}`, "metadata.labels"},
		"an annotation that is none":      {`{"metadata":{"annotations":{"a b":"c"}}}`, "metadata.annotations"},
		"a finalizer that is none":        {`{"metadata":{"finalizers":["a b"]}}`, "metadata.finalizers"},
		"a node selector that is none":    {`{"spec":{"nodeSelector":{"a":"b c"}}}`, "spec.nodeSelector"},
		"a toleration that is none":       {`{"spec":{"tolerations":[{"key":"a","operator":"Exists","value":"b"}]}}`, "spec.tolerations"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := judgedByServer(t, pod, tc.patch); !apierrors.IsInvalid(err) {
				t.Errorf("the API server: %v", err)
			}
			s := ofSubsets(ns, "web", target("apps/v1", "StatefulSet"), patch(tc.patch))
			for _, want := range []string{"spec.subsets[0].patch", tc.says} {
				if err := testenv.Refusal(env.Client.Create(t.Context(), s, client.DryRunAll), want); err != nil {
					t.Error(err)
				}
			}
		})
	}
	unknown := ofSubsets(ns, "later", patch(main(`"volumeMounts":[{"name":"any","mountPath":"/x"}],"resources":{"requests":{"cpu":"2"}}`)))
	if err := env.Client.Create(t.Context(), unknown, client.DryRunAll); err != nil {
		t.Errorf("of a workload that is not known: %v", err)
	}
	for name, text := range map[string]string{
		"a mount of a claim":         main(`"volumeMounts":[{"name":"data","mountPath":"/x"}]`),
		"a volume and its mount":     `{"spec":{"volumes":[{"name":"new","emptyDir":{}}],"containers":[{"name":"main","volumeMounts":[{"name":"new","mountPath":"/x"}]}]}}`,
		"limits with their requests": main(`"resources":{"limits":{"cpu":"500m"},"requests":{"cpu":"500m"}}`),
		"a higher limit":             main(`"resources":{"limits":{"cpu":"2"}}`),
		"a port with its name":       main(`"ports":[{"containerPort":80,"hostPort":8080,"name":"web"}]`),
		"a container beside":         `{"spec":{"containers":[{"name":"side","image":"x","ports":[{"containerPort":80,"name":"web"}]}]}}`,
		"metadata":                   `{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b c"},"finalizers":["example.com/f"]}}`,
		"a negative grace period":    `{"spec":{"terminationGracePeriodSeconds":-1}}`, // the API server makes it 1
	} {
		t.Run(name, func(t *testing.T) {
			if err := judgedByServer(t, pod, text); err != nil {
				t.Errorf("the API server: %v", err)
			}
			if err := env.Client.Create(t.Context(), ofSubsets(ns, "web", target("apps/v1", "StatefulSet"), patch(text)), client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
	var mounts []string
	for i := range 1000 {
		mounts = append(mounts, fmt.Sprintf(`{"name":"none-%d","mountPath":"/%d"}`, i, i))
	}
	many := env.Client.Create(t.Context(), ofSubsets(ns, "web", target("apps/v1", "StatefulSet"), patch(main(`"volumeMounts":[`+strings.Join(mounts, ",")+`]`))))
	if !apierrors.IsInvalid(many) || len(many.Error()) > 8<<10 {
		t.Errorf("a thousand mistakes: %.300v", many)
	}
}
