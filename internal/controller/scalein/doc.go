// Package scalein writes the costs by which a ReplicaSet chooses the pods that go first.
package scalein
