package upgrade

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CRD is a definition whose former versions the controller converts.
type CRD struct {
	// Name of the CustomResourceDefinition.
	Name string
	// Stored is the kind, in the version that is stored now.
	Stored schema.GroupVersionKind
}

// definition is a cache of one CRD. The right to watch CRDs is limited to names, and a
// watch can select one name only.
type definition struct{ cache.Cache }

func newDefinition(mgr ctrl.Manager, name string) (definition, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&apiextensionsv1.CustomResourceDefinition{}: {Field: fields.OneTermEqualSelector("metadata.name", name)},
		},
	})
	if err != nil {
		return definition{}, fmt.Errorf("make cache of CRD %s: %w", name, err)
	}
	return definition{c}, nil
}

// GetCache makes a manager start the cache before its controllers.
func (d definition) GetCache() cache.Cache { return d.Cache }
