// Package all puts every kind of network on the list of package backbone. It is imported for that
// alone, by whatever lets its users choose a network.
package all

import (
	_ "github.com/voxsaw/voxsaw/internal/resenc" // nnU-Net's residual encoder U-Net
	_ "github.com/voxsaw/voxsaw/internal/unet"   // networks that nnU-Net planned
	_ "github.com/voxsaw/voxsaw/vnet"            // VNet
)
