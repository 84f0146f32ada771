"""Residual networks (He and others, 2015), as wide as one likes."""

from torch import nn

# Blocks of each stage, and whether blocks have a bottleneck.
DEPTHS = {"resnet18": ((2, 2, 2, 2), False), "resnet34": ((3, 4, 6, 3), False), "resnet50": ((3, 4, 6, 3), True)}
EXPANSION = 4


def convolution(inputs, outputs, size, stride=1):
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)]


class Block(nn.Module):
    """Convolutions, and a way around them."""

    def __init__(self, inputs, width, stride, has_bottleneck):
        super().__init__()
        outputs = width * EXPANSION if has_bottleneck else width
        if has_bottleneck:
            layers = [*convolution(inputs, width, 1), nn.ReLU(), *convolution(width, width, 3, stride), nn.ReLU()]
            layers += convolution(width, outputs, 1)
        else:
            layers = [*convolution(inputs, width, 3, stride), nn.ReLU(), *convolution(width, outputs, 3)]
        self.layers = nn.Sequential(*layers)
        is_same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if is_same else nn.Sequential(*convolution(inputs, outputs, 1, stride))

    def forward(self, images):
        return nn.functional.relu(self.layers(images) + self.around(images))


def resnet(name, classes, width, has_large_images):
    """A network by name; `width` channels in its first stage. Large images are halved twice before it."""
    depths, has_bottleneck = DEPTHS[name]
    if has_large_images:
        layers = [*convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    else:
        layers = [*convolution(3, width, 3), nn.ReLU()]
    inputs = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Block(inputs, width << stage, stride, has_bottleneck))
            inputs = (width << stage) * (EXPANSION if has_bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
