package validate_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const retain, auto = reservation.RetainAnnotation, appsv1beta1.AnnotationAutoGenerate

// templated is a StatefulSet whose pods have an annotation.
func templated(ns, name, key, value string) testenv.StatefulSet {
	set := testenv.AStatefulSet(name, 1).In(ns)
	set.Spec.Template.Annotations = map[string]string{key: value}
	return set
}

// deployed is a Deployment whose pods have an annotation.
func deployed(ns, name, key string) *appsv1.Deployment {
	like := templated(ns, name, key, "10")
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
		Spec:       appsv1.DeploymentSpec{Selector: like.Spec.Selector, Template: like.Spec.Template},
	}
}

// jobOf is the template of a Job whose pods have an annotation.
func jobOf(ns, key string) batchv1.JobSpec {
	template := templated(ns, "run", key, "10").Spec.Template
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return batchv1.JobSpec{Template: template}
}

// Each mistake is told when the workload is applied, whatever its kind.
func TestAnnotationsThatDoNothingAreWarnedOf(t *testing.T) {
	serve(t)
	env.Node(t)
	ns := env.Namespace(t)
	c, heard := env.Listen(t)
	cases := map[string]struct {
		workload client.Object
		word     string
	}{
		"a reservation without a place":       {templated(ns, "placeless", retain, "10").StatefulSet, "nothing brings the pod back"},
		"generation by another word":          {testenv.AStatefulSet("yes", 1).In(ns).With(auto, "yes").StatefulSet, `"yes" is not "true"`},
		"a duration on the StatefulSet":       {testenv.AStatefulSet("above", 1).In(ns).With(retain, "10").StatefulSet, "move it to spec.template"},
		"a misspelt annotation":               {templated(ns, "slip", "io.kubernetes.cri/reserved-ip-duratoin", "10").StatefulSet, "knows no annotation io.kubernetes.cri/reserved-ip-duratoin"},
		"required without a duration":         {templated(ns, "must", reservation.ModeAnnotation, "required").StatefulSet, "without a duration"},
		"a reservation of a Deployment's pod": {deployed(ns, "app", retain), "never come back under their names"},
		"a reservation of a Job's pod": {
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: ns}, Spec: jobOf(ns, retain)}, "never come back under their names",
		},
		"a reservation of a CronJob's pod": {
			&batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{Name: "cron", Namespace: ns},
				Spec:       batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: jobOf(ns, retain)}},
			},
			"never come back under their names",
		},
		"a label that no node has": {
			testenv.AStatefulSet("host", 1).In(ns).With(auto, "true").With(appsv1beta1.AnnotationRequiredTopology, "kubernetes.io/hostnam").StatefulSet,
			"no node has the label kubernetes.io/hostnam:",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(t.Context(), tc.workload); err != nil {
				t.Fatal(err)
			}
			env.RemoveAtEnd(t, tc.workload)
			if err := heard.Names(tc.word); err != nil {
				t.Error(err)
			}
		})
	}
}

// A workload is sent when annotations change that may mean Limpet. A scale-out, or what another
// controller made from a template, costs no request.
func TestAWorkloadIsJudgedWhenItsAnnotationsChange(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	c, heard := env.Listen(t)
	web := deployed(ns, "web", retain)
	env.Create(t, web)
	silent := func(what string) {
		t.Helper()
		if heard.Names(retain) == nil {
			t.Errorf("%s is warned of", what)
		}
	}
	web.Spec.Replicas = new(int32(3))
	if err := c.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	silent("a scale-out")
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: ns, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(web, appsv1.SchemeGroupVersion.WithKind("Deployment")),
		}},
		Spec: appsv1.ReplicaSetSpec{Selector: web.Spec.Selector, Template: web.Spec.Template},
	}
	if err := c.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, set)
	silent("the ReplicaSet of a Deployment")
	web.Spec.Template.Annotations[retain] = "20"
	if err := c.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if err := heard.Names(retain); err != nil {
		t.Errorf("another duration: %v", err)
	}
	own := testenv.AStatefulSet("own", 1).In(metav1.NamespaceSystem)
	own.Spec.Template.Annotations = map[string]string{retain: "10"}
	if err := c.Create(t.Context(), own.StatefulSet); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, own.StatefulSet)
	silent("a workload of kube-system")
}
