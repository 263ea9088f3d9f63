package chaos

import (
	"context"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// opener opens a watch of one resource.
type opener func(context.Context, metav1.ListOptions) (watch.Interface, error)

// openers are the watches of all resources whose versions the check of the budgets needs in time.
func (r *runner) openers() map[string]opener {
	return map[string]opener{
		"pods":         r.bed.Client.CoreV1().Pods(Namespace).Watch,
		"statefulsets": r.bed.Client.AppsV1().StatefulSets(Namespace).Watch,
		"replicasets":  r.bed.Client.AppsV1().ReplicaSets(Namespace).Watch,
		"deployments":  r.bed.Client.AppsV1().Deployments(Namespace).Watch,
	}
}

// follow watches a resource from a version on until the watch ends, and returns the last version.
func (r *runner) follow(ctx context.Context, resource string, open opener, from string) string {
	w, err := open(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
	if err != nil {
		return stillKnown(from, err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return stillKnown(from, apierrors.FromObject(event.Object))
		}
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return ""
		}
		from = object.GetResourceVersion()
		if version, err := strconv.ParseUint(from, 10, 64); err == nil {
			r.sights.Show(resource, version, time.Now())
		}
	}
	return from
}

// stillKnown returns a version, unless the API server has forgotten it.
func stillKnown(version string, err error) string {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return ""
	}
	return version
}
