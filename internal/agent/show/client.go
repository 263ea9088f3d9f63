package show

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// metadataOnly asks the server for the metadata of objects.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Client reads and writes the kinds that the agent needs. The client of controller-runtime links the kinds of all
// groups of Kubernetes, which would cost a third of the agent's memory on each node.
type Client struct {
	// HTTP holds the connections, which other clients of the agent share.
	HTTP *http.Client
	// Core reads and writes objects of the core group.
	Core *rest.RESTClient
	// Limpet reads and writes objects of limpet.dev.
	Limpet     *rest.RESTClient
	parameters runtime.ParameterCodec
}

// newClient returns a client that has not connected yet: the agent must start while the API server is unreachable.
func newClient(config *rest.Config) (*Client, error) {
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}, &corev1.Event{})
	metav1.AddToGroupVersion(kinds, corev1.SchemeGroupVersion)
	if err := errors.Join(metav1.AddMetaToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	c := &Client{parameters: runtime.NewParameterCodec(kinds)}
	var err error
	if c.HTTP, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	codecs := serializer.NewCodecFactory(kinds).WithoutConversion()
	client := func(path, contentType string, version schema.GroupVersion) (*rest.RESTClient, error) {
		of := rest.CopyConfig(config)
		of.APIPath, of.GroupVersion, of.NegotiatedSerializer, of.ContentType = path, &version, codecs, contentType
		if of.UserAgent == "" {
			of.UserAgent = rest.DefaultKubernetesUserAgent()
		}
		return rest.RESTClientForConfigAndClient(of, c.HTTP)
	}
	if c.Core, err = client("/api", runtime.ContentTypeProtobuf, corev1.SchemeGroupVersion); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if c.Limpet, err = client("/apis", runtime.ContentTypeJSON, v1alpha1.GroupVersion); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}

// resourceOf returns the resource of an object that the agent writes.
func resourceOf(o plan.Object) string {
	switch o.(type) {
	case *v1alpha1.IPReservation:
		return "ipreservations"
	case *v1alpha1.NodeIPPool:
		return "nodeippools"
	case *v1alpha1.BorrowedAddress:
		return "borrowedaddresses"
	default:
		return "events"
	}
}

// Ready reports whether the API server says that it is ready: it knows all roles then.
func (c *Client) Ready(ctx context.Context) bool {
	return c.Core.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error() == nil
}

// ServiceRanges returns the ranges of services; none where the API server does not serve their kind, or not to the agent.
func (c *Client) ServiceRanges(ctx context.Context) (ranges []netip.Prefix, err error) {
	var list struct {
		Items []struct {
			Spec struct{ CIDRs []netip.Prefix }
		}
	}
	data, err := c.Limpet.Get().AbsPath("/apis/networking.k8s.io/v1/servicecidrs").MaxRetries(0).Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil, nil
	case err == nil:
		err = json.Unmarshal(data, &list)
	}
	for _, o := range list.Items {
		ranges = append(ranges, o.Spec.CIDRs...)
	}
	return ranges, err //nolint:wrapcheck // the caller asks again
}

// Create creates an object, and fills it with the answer. Fields that the answer lacks stay: the CRD of an earlier
// version drops what it does not know, and the loop must not write such a field again and again.
func (c *Client) Create(ctx context.Context, o plan.Object) error {
	return c.request(http.MethodPost, o).Body(o).Do(ctx).Into(o)
}

// Update replaces an object, and fills it with the answer, as Create does.
func (c *Client) Update(ctx context.Context, o plan.Object) error {
	return c.request(http.MethodPut, o).Name(o.GetName()).Body(o).Do(ctx).Into(o)
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, o plan.Object) error {
	return c.request(http.MethodDelete, o).Name(o.GetName()).Body(&metav1.DeleteOptions{}).Do(ctx).Error()
}

// DeleteExactly deletes an object if the server has the same version of it.
func (c *Client) DeleteExactly(ctx context.Context, o plan.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	exactly := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
	return c.request(http.MethodDelete, o).Name(o.GetName()).Body(exactly).Do(ctx).Error()
}

// Loans calls fn with each loan of the cluster, as the server stores them now.
func (c *Client) Loans(ctx context.Context, fn func(*v1alpha1.BorrowedAddress)) error {
	for page := (metav1.ListOptions{Limit: 500}); ; {
		var list v1alpha1.BorrowedAddressList
		err := c.Limpet.Get().Resource("borrowedaddresses").VersionedParams(&page, c.parameters).MaxRetries(0).Do(ctx).Into(&list)
		if err != nil {
			return err //nolint:wrapcheck // the caller tells what was listed
		}
		for i := range list.Items {
			fn(&list.Items[i])
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return nil
		}
	}
}

// Get fills an object with what the server has under its name.
func (c *Client) Get(ctx context.Context, o plan.Object) error {
	return c.request(http.MethodGet, o).Name(o.GetName()).Do(ctx).Into(o)
}

// request begins a request about an object that the agent writes. The client repeats no request by itself: the loop waits
// longer, and at random.
func (c *Client) request(verb string, o plan.Object) *rest.Request {
	client, resource := c.Limpet, resourceOf(o)
	if resource == "events" {
		client = c.Core
	}
	return client.Verb(verb).NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(resource).MaxRetries(0)
}

// list has decode read the objects of one node, one after the other, from the memory of the server: as of any time, or as
// of the given version or later. A server does not answer from its memory in pages, and one object may have 1.5 MiB.
func (c *Client) list(ctx context.Context, resource, node, version string, decode func(*json.Decoder) error) (newest string, err error) {
	ofNode := metav1.ListOptions{
		LabelSelector:   v1alpha1.LabelNode + "=" + v1alpha1.NodeLabel(node),
		ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	body, err := c.Limpet.Get().Resource(resource).VersionedParams(&ofNode, c.parameters).MaxRetries(0).Stream(ctx)
	if err != nil {
		return "", err //nolint:wrapcheck // the caller tells what was listed
	}
	defer func() { _ = body.Close() }() // all was read, or the error tells
	from := json.NewDecoder(body)
	var header metav1.ListMeta
	_, err = from.Token() // the brace
	for err == nil && from.More() {
		var key json.Token
		key, err = from.Token()
		switch {
		case err != nil:
		case key == "metadata":
			err = from.Decode(&header)
		case key == "items":
			for _, err = from.Token(); err == nil && from.More(); { // behind the bracket
				err = decode(from)
			}
			if err == nil {
				_, err = from.Token()
			}
		default:
			err = from.Decode(&json.RawMessage{})
		}
	}
	if err == nil {
		_, err = from.Token() // a list that was cut off has no second brace
	}
	if err != nil || header.ResourceVersion == "" {
		return "", fmt.Errorf("decode list: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return header.ResourceVersion, nil
}

// watchNamed watches the metadata of one object of the core group by its name. The first event shows the
// object if it is there, so that no list is needed.
func (c *Client) watchNamed(ctx context.Context, resource, name string, atMost time.Duration) (watch.Interface, error) {
	seconds := int64(atMost / time.Second)
	named := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: "0", TimeoutSeconds: &seconds, Watch: true,
	}
	return c.Core.Get().Resource(resource).VersionedParams(&named, c.parameters).SetHeader("Accept", metadataOnly).MaxRetries(0).Watch(ctx)
}

// watchMarked watches the IPReservations of one node and one namespace that users give up, from the memory of the
// server; those of all namespaces without one.
func (c *Client) watchMarked(ctx context.Context, node, ns string, atMost time.Duration) (watch.Interface, error) {
	seconds := int64(atMost / time.Second)
	marked := metav1.ListOptions{
		LabelSelector: v1alpha1.LabelNode + "=" + v1alpha1.NodeLabel(node) + "," + v1alpha1.LabelRelease, ResourceVersion: "0",
		TimeoutSeconds: &seconds, Watch: true,
	}
	return c.Limpet.Get().NamespaceIfScoped(ns, ns != metav1.NamespaceAll).Resource("ipreservations").VersionedParams(&marked, c.parameters).MaxRetries(0).Watch(ctx)
}
