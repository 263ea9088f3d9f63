package leader

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fence is what a write waits for.
type Fence interface {
	// Wait returns nil once this replica leads, and an error if ctx ends before.
	Wait(ctx context.Context) error
}

// Client returns a client whose writes wait while this replica does not lead. Reads do not wait.
func Client(c client.Client, f Fence) client.Client { return fenced{c, f} }

type fenced struct {
	client.Client
	fence Fence
}

// Create creates an object.
func (c fenced) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.when(ctx, func() error { return c.Client.Create(ctx, o, opts...) })
}

// Update updates an object.
func (c fenced) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.when(ctx, func() error { return c.Client.Update(ctx, o, opts...) })
}

// Patch patches an object.
func (c fenced) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.when(ctx, func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

// Apply applies a configuration.
func (c fenced) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.when(ctx, func() error { return c.Client.Apply(ctx, o, opts...) })
}

// Delete deletes an object.
func (c fenced) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.when(ctx, func() error { return c.Client.Delete(ctx, o, opts...) })
}

// DeleteAllOf deletes objects.
func (c fenced) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	return c.when(ctx, func() error { return c.Client.DeleteAllOf(ctx, o, opts...) })
}

// Status returns a client for the status.
func (c fenced) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource returns a client for a subresource.
func (c fenced) SubResource(name string) client.SubResourceClient {
	return fencedPart{c.Client.SubResource(name), c.fence}
}

func (c fenced) when(ctx context.Context, write func() error) error {
	return when(ctx, c.fence, write)
}

type fencedPart struct {
	client.SubResourceClient
	fence Fence
}

// Create creates a subresource.
func (c fencedPart) Create(ctx context.Context, o, part client.Object, opts ...client.SubResourceCreateOption) error {
	return when(ctx, c.fence, func() error { return c.SubResourceClient.Create(ctx, o, part, opts...) })
}

// Update updates a subresource.
func (c fencedPart) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return when(ctx, c.fence, func() error { return c.SubResourceClient.Update(ctx, o, opts...) })
}

// Patch patches a subresource.
func (c fencedPart) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return when(ctx, c.fence, func() error { return c.SubResourceClient.Patch(ctx, o, p, opts...) })
}

// Apply applies a configuration to a subresource.
func (c fencedPart) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return when(ctx, c.fence, func() error { return c.SubResourceClient.Apply(ctx, o, opts...) })
}

func when(ctx context.Context, f Fence, write func() error) error {
	if err := f.Wait(ctx); err != nil {
		return err
	}
	return write()
}
