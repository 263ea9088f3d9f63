package cluster

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// NotServed tells that a list failed because the API server does not serve the kind: its CRD was
// deleted, and all objects with it.
func NotServed(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
