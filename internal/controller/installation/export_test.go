package installation

import "context"

// Look looks once.
func (a *Apart) Look(ctx context.Context) error { return a.look(ctx) }
