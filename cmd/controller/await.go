package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// serverRetry is the time between two questions to an API server that does not answer.
	serverRetry = time.Second
	// serverAnswer is how long an answer may take.
	serverAnswer = 3 * time.Second
)

// awaitServer waits until the API server answers. A replica that starts during an outage would end
// otherwise, and the kubelet would wait ever longer before each of its restarts.
func awaitServer(ctx context.Context, config *rest.Config, c clock.Clock) error {
	config = rest.CopyConfig(config)
	config.Timeout = serverAnswer
	asks, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make discovery client: %w", err)
	}
	for first := true; ; first = false {
		_, err := asks.ServerVersion()
		var refused apierrors.APIStatus
		if err == nil || errors.As(err, &refused) && refused.Status().Code < 500 {
			return nil // what is refused here is reported where it is needed
		}
		if first {
			ctrl.Log.Info("The API server does not answer yet", "cause", err.Error())
		}
		select {
		case <-c.After(serverRetry):
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server: %w", ctx.Err())
		}
	}
}
