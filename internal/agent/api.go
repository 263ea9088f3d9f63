package agent

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// apiClient reads and writes the kinds that the agent needs. The client of controller-runtime links the kinds of all
// groups of Kubernetes, which would cost a third of the agent's memory on each node.
type apiClient struct {
	http         *http.Client
	core, limpet *rest.RESTClient
	parameters   runtime.ParameterCodec
}

// newAPIClient returns a client that has not connected yet: the agent must start while the API server is unreachable.
func newAPIClient(config *rest.Config) (*apiClient, error) {
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}, &corev1.Event{})
	metav1.AddToGroupVersion(kinds, corev1.SchemeGroupVersion)
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	c := &apiClient{parameters: runtime.NewParameterCodec(kinds)}
	var err error
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	codecs := serializer.NewCodecFactory(kinds).WithoutConversion()
	client := func(path, contentType string, version schema.GroupVersion) (*rest.RESTClient, error) {
		of := rest.CopyConfig(config)
		of.APIPath, of.GroupVersion, of.NegotiatedSerializer, of.ContentType = path, &version, codecs, contentType
		if of.UserAgent == "" {
			of.UserAgent = rest.DefaultKubernetesUserAgent()
		}
		return rest.RESTClientForConfigAndClient(of, c.http)
	}
	if c.core, err = client("/api", runtime.ContentTypeProtobuf, corev1.SchemeGroupVersion); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if c.limpet, err = client("/apis", runtime.ContentTypeJSON, v1alpha1.GroupVersion); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}

// resource returns the client and the resource of an object that the agent writes.
func (c *apiClient) resource(o plan.Object) (*rest.RESTClient, string) {
	switch o.(type) {
	case *v1alpha1.IPReservation:
		return c.limpet, "ipreservations"
	case *v1alpha1.NodeIPPool:
		return c.limpet, "nodeippools"
	default:
		return c.core, "events"
	}
}

// Create creates an object, and fills it with the answer.
func (c *apiClient) Create(ctx context.Context, o plan.Object) error {
	client, resource := c.resource(o)
	return client.Post().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(resource).Body(o).Do(ctx).Into(o)
}

// Update replaces an object, and fills it with the answer.
func (c *apiClient) Update(ctx context.Context, o plan.Object) error {
	client, resource := c.resource(o)
	return client.Put().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(resource).Name(o.GetName()).Body(o).Do(ctx).Into(o)
}

// Delete deletes an object.
func (c *apiClient) Delete(ctx context.Context, o plan.Object) error {
	client, resource := c.resource(o)
	return client.Delete().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(resource).Name(o.GetName()).Body(&metav1.DeleteOptions{}).Do(ctx).Error()
}

// List fills a list with the objects of one node.
func (c *apiClient) List(ctx context.Context, resource, node string, into runtime.Object) error {
	ofNode := metav1.ListOptions{LabelSelector: v1alpha1.LabelNode + "=" + v1alpha1.NodeLabel(node)}
	return c.limpet.Get().Resource(resource).VersionedParams(&ofNode, c.parameters).Do(ctx).Into(into)
}
