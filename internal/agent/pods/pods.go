// Package pods lists the pods of a node without the API server: from the kubelet's PodsAPI
// (KEP-4188), or from the container runtime (CRI). Both listen on sockets of the node that only root
// may use. So the agent needs no right to read the pods of the whole cluster.
package pods

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// maxMessage is the largest message of a runtime that is accepted, as in the kubelet.
const maxMessage = 16 << 20

// dialTimeout bounds the question whether a socket has a server.
const dialTimeout = time.Second

// dial returns a connection to a socket of the node. Nothing is connected yet.
func dial(socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the file system decides who may use the socket
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	return conn, nil
}

// Listens reports whether a server listens on a socket.
func Listens(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// SocketPath returns the path of a socket that is given as a path or as an endpoint, unix:///path.
func SocketPath(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is no path of a socket", endpoint)
	}
	return path, nil
}
